//! Inspection of a store: its lines and keys, its events, its numbers and its speed.

pub(crate) mod bench;
pub(crate) mod break_ticket;
pub(crate) mod count;
pub(crate) mod doctor;
pub(crate) mod json;
pub(crate) mod keys;
pub(crate) mod line;
pub(crate) mod next;
pub(crate) mod ps;
mod short_id;
pub(crate) mod table;
pub(crate) mod top;
pub(crate) mod watch;
