//! Visits: how an engine enters a book, reads the changes of others, and lets the next one in.

mod damage;
mod embargo;
pub(crate) mod ground;
mod helper;
pub(crate) mod mark;
mod slot;
pub(crate) mod store;
pub(crate) mod visit;
