//! Inspection of a store: its lines and keys, its events, its numbers and its speed.

pub(crate) mod bench;
pub(crate) mod break_ticket;
pub(crate) mod count;
mod json;
pub(crate) mod keys;
pub(crate) mod line;
pub(crate) mod next;
mod rfc3339;
pub(crate) mod table;
pub(crate) mod watch;
