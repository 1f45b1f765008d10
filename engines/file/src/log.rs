//! The log: the events of a book's lines in its file, and the resulting state.

pub(crate) mod book;
#[cfg(test)]
mod crash;
pub(crate) mod draft;
pub(crate) mod event_sink;
pub(crate) mod frame;
pub(crate) mod header;
pub(crate) mod record;
pub(crate) mod row;
pub(crate) mod salvage;
pub(crate) mod shelf;
pub(crate) mod state;
