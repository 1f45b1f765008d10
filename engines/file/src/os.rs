//! The operating system, in one place: nothing outside this room knows which one it is.

pub(crate) mod boot;
pub(crate) mod deaths;
pub(crate) mod dir;
pub(crate) mod flock;
pub(crate) mod holder;
pub(crate) mod network;
pub(crate) mod sight;
