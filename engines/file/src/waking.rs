//! Wake-ups of waiters, in this process and from another one.

pub(crate) mod cursors;
pub(crate) mod event_watchers;
pub(crate) mod fifo;
pub(crate) mod watchers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes a task. A waker may do anything, so no lock may be held. If it panics, others are woken
/// all the same, and the thread goes on.
pub(crate) fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake())); // the panic hook has reported it
}
