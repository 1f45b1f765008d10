//! The contract: the words that an engine and its callers share, and what each may expect of the other.
//!
//! Begin with [`engine`]: nine verbs and eight promises. A [`ticket`] is what they
//! move, a [`key`] names the line it stands in, a [`guarantees`] says what a store promises.

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
