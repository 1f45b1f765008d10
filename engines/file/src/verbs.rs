//! The verbs that are more than one visit to a book.

pub(crate) mod counters;
pub(crate) mod line;
pub(crate) mod news;
pub(crate) mod watch;
