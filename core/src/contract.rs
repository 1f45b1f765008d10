//! The contract between an engine and its callers.
//!
//! Start with [`engine`]: ten operations and eight promises. Operations move a [`ticket`] in the
//! line of a [`key`]. [`guarantees`] lists the properties of a store, and [`loss`] how a lock is
//! lost. [`any`] is an engine of any type, and [`layer`] an engine around another one.

pub(crate) mod any;
pub(crate) mod engine;
pub(crate) mod error;
pub mod errors;
pub mod event;
pub(crate) mod guarantees;
pub(crate) mod id;
pub(crate) mod key;
pub(crate) mod labels;
pub(crate) mod layer;
pub(crate) mod line_entry;
pub(crate) mod loss;
#[cfg(feature = "serde")]
mod serialized;
pub(crate) mod share;
pub(crate) mod stale;
pub(crate) mod ticket;
pub(crate) mod token;
