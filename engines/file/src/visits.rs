//! Visits: how an engine enters a book, reads the changes of others, and lets the next one in.

pub(crate) mod context;
mod damage;
mod damage_hold;
mod helper;
pub(crate) mod mark;
mod slot;
pub(crate) mod store;
pub(crate) mod visit;
