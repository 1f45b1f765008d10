//! The log: what happened to the lines of a book, as its file keeps it, and the state that it comes to.

pub(crate) mod book;
#[cfg(test)]
mod crash;
pub(crate) mod draft;
pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod herald;
mod past;
pub(crate) mod record;
pub(crate) mod row;
pub(crate) mod salvage;
pub(crate) mod shelf;
pub(crate) mod state;
