//! Visits: how an engine gets into a book, finds it as others left it, and lets the next one in.

mod damage;
mod embargo;
pub(crate) mod ground;
mod helper;
pub(crate) mod mark;
mod slot;
pub(crate) mod store;
pub(crate) mod visit;
