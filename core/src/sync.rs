//! A mutex that is never poisoned, and wake-ups of the tasks that wait for a ticket.

pub(crate) mod replaced;
pub mod wake;

use std::sync::{MutexGuard, PoisonError, TryLockError};

/// A [`std::sync::Mutex`] that stays usable after a panic. Each critical section of this crate
/// leaves its data whole, so a panic in one does not spoil the data for others.
///
/// ```
/// let count = tenure_core::sync::Mutex::new(1);
/// *count.lock() += 1;
/// assert_eq!(*count.lock(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A mutex around this value.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks it if no other thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, without a lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
