//! Locks of this process, and waking who waits in it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// What a panic leaves behind these locks is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes somebody. A waker may do anything: nothing may be locked meanwhile, and one that panics keeps neither others
/// from being woken nor the thread that wakes them from going on.
pub(crate) fn wake(waker: Waker) {
    let _it_was_said = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}
