//! Functions that only Linux has.

mod boot_id;
mod listener;
mod lock_owners;
mod network;
mod sight;

pub(crate) use boot_id::{began_us, boot_id};
pub(crate) use listener::CloseListener;
pub(crate) use lock_owners::of as owners_of;
pub(crate) use network::file_system;
pub(crate) use sight::Sight;
