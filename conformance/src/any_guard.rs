//! A guard of any primitive, for cases that treat them alike.

use std::ops::Deref;

use tenure_core::{Leadership, LeaseHandle, MutexGuard, Permit, ReadGuard, Result, WriteGuard};

/// A guard of any primitive. It derefs to the handle of its lease.
#[derive(Debug)]
pub struct AnyGuard {
    guard: Inner,
    handle: LeaseHandle,
}

#[derive(Debug)]
enum Inner {
    Mutex(MutexGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(Permit),
    Leadership(Leadership),
}

impl AnyGuard {
    /// Returns the handle of the lease.
    pub fn handle(&self) -> LeaseHandle {
        self.handle.clone()
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// As the guard's own `release`.
    pub async fn release(self) -> Result<()> {
        match self.guard {
            Inner::Mutex(guard) => guard.release().await,
            Inner::Read(guard) => guard.release().await,
            Inner::Write(guard) => guard.release().await,
            Inner::Permit(guard) => guard.release().await,
            Inner::Leadership(guard) => guard.release().await,
        }
    }
}

impl Deref for AnyGuard {
    type Target = LeaseHandle;

    fn deref(&self) -> &LeaseHandle {
        &self.handle
    }
}

impl From<MutexGuard> for AnyGuard {
    fn from(guard: MutexGuard) -> Self {
        Self { handle: guard.handle(), guard: Inner::Mutex(guard) }
    }
}

impl From<ReadGuard> for AnyGuard {
    fn from(guard: ReadGuard) -> Self {
        Self { handle: guard.handle(), guard: Inner::Read(guard) }
    }
}

impl From<WriteGuard> for AnyGuard {
    fn from(guard: WriteGuard) -> Self {
        Self { handle: guard.handle(), guard: Inner::Write(guard) }
    }
}

impl From<Permit> for AnyGuard {
    fn from(guard: Permit) -> Self {
        Self { handle: guard.handle(), guard: Inner::Permit(guard) }
    }
}

impl From<Leadership> for AnyGuard {
    fn from(guard: Leadership) -> Self {
        Self { handle: guard.handle(), guard: Inner::Leadership(guard) }
    }
}
