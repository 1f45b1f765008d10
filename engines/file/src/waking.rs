//! Wake-ups of waiters, in this process and from another one.

pub(crate) mod cursors;
pub(crate) mod event_watchers;
pub(crate) mod fifo;
pub(crate) mod watchers;
