//! Supervision of the user's command: three processes and their messages, as DESIGN.md draws them.

pub(crate) mod alarm;
mod child;
pub(crate) mod control_channel;
mod job;
pub(crate) mod keeper;
mod lease;
pub(crate) mod look_up;
pub(crate) mod nested;
mod process;
pub(crate) mod process_tree;
pub(crate) mod shim;
pub(crate) mod signals;
mod stop;
pub(crate) mod supervise;
pub(crate) mod task;
mod terminal;

pub(crate) use child::SpareKeeper;
pub(crate) use control_channel::ExitReason;
pub(crate) use job::stop_with_the_job;
pub(crate) use process::own_executable;
