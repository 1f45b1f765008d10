//! A reader-writer lock: a reader takes one of many, a writer all of them.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::claim::{Claim, terms};
use crate::{Guard, Locks, Result, SHARE_OF_MAX, Share};

/// Readers together, or one writer. Made by [`Locks::rwlock`].
///
/// Whoever comes first is served first: readers who come after a waiting writer wait behind it, so no
/// stream of readers starves it. There is no way up from reading to writing, because two who tried
/// would wait for each other; there is one [down](WriteGuard::downgrade).
#[derive(Clone, Debug)]
#[must_use = "a lock locks nothing until it is asked to"]
pub struct RwLock {
    claim: Claim,
}

impl Locks {
    /// The reader-writer lock of this name.
    pub fn rwlock(&self, key: impl AsRef<str>) -> RwLock {
        RwLock { claim: Claim::new(self, key) }
    }
}

fn reader() -> Share {
    Share::new(1, SHARE_OF_MAX).expect("one of many is a share")
}

fn writer() -> Share {
    Share::new(SHARE_OF_MAX, SHARE_OF_MAX).expect("all of many is a share")
}

impl RwLock {
    terms!();

    /// Waits until it may read. Cancel-safe, like [`Mutex::lock`](crate::Mutex::lock).
    pub async fn read(&self) -> Result<Guard> {
        self.claim.wait(reader()).await
    }

    /// Reads if nobody writes or waits to, and answers `None` otherwise.
    pub async fn try_read(&self) -> Result<Option<Guard>> {
        self.claim.attempt(reader()).await
    }

    /// Waits for so long until it may read, and answers `None` if that was in vain.
    pub async fn read_within(&self, time: Duration) -> Result<Option<Guard>> {
        self.claim.wait_for(reader(), time).await
    }

    /// Waits until it may write. Cancel-safe, like [`Mutex::lock`](crate::Mutex::lock).
    pub async fn write(&self) -> Result<WriteGuard> {
        self.claim.wait(writer()).await.map(WriteGuard)
    }

    /// Writes if nobody reads, writes or waits, and answers `None` otherwise.
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        Ok(self.claim.attempt(writer()).await?.map(WriteGuard))
    }

    /// Waits for so long until it may write, and answers `None` if that was in vain.
    pub async fn write_within(&self, time: Duration) -> Result<Option<WriteGuard>> {
        Ok(self.claim.wait_for(writer(), time).await?.map(WriteGuard))
    }
}

/// The right to write, until it is released, dropped, downgraded or lost.
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    /// Becomes a reader without letting go: no writer can come between.
    ///
    /// If the store cannot be reached, other readers wait until the next renewal comes through.
    pub async fn downgrade(self) -> Result<Guard> {
        self.0.shrink(reader()).await?;
        Ok(self.0)
    }

    /// Gives the lock back. See [`Guard::release`].
    pub async fn release(self) -> Result<()> {
        self.0.release().await
    }
}

impl Deref for WriteGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

impl fmt::Debug for WriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
