//! Locks of this process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a panic leaves behind these locks is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
