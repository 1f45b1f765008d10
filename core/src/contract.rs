//! The contract between an engine and its callers.
//!
//! Start with [`engine`]: nine operations and eight promises. Operations move a [`ticket`] in the
//! line of a [`key`]. [`guarantees`] lists the properties of a store.

pub(crate) mod engine;
pub(crate) mod error;
pub mod errors;
pub mod event;
pub(crate) mod guarantees;
pub(crate) mod id;
pub(crate) mod key;
pub(crate) mod labels;
#[cfg(feature = "serde")]
mod serialized;
pub(crate) mod share;
pub(crate) mod stale;
pub(crate) mod ticket;
