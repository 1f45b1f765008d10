//! Functions that only Linux has.

mod boot_id;
mod holder;
mod listener;
mod network;
mod sight;

pub(crate) use boot_id::{began_us, boot_id};
pub(crate) use holder::of as holder_of;
pub(crate) use listener::CloseListener;
pub(crate) use network::file_system;
pub(crate) use sight::Sight;
