//! A reader-writer lock: a reader takes one of many, a writer all of them.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::api::claim::{Claim, terms};
use crate::{Guard, Locks, Result, Share};

/// Readers together, or one writer. Made by [`Locks::rwlock`].
///
/// Its writer is the [`Mutex`](crate::Mutex) of the same key.
///
/// Whoever comes first is served first: readers who come after a waiting writer wait behind it, so no
/// stream of readers starves it. There is no way up from reading to writing, because two who tried
/// would wait for each other; there is one [down](WriteGuard::downgrade).
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let config = locks.rwlock("config");
/// let (one, two) = (config.read().await?, config.read().await?);
/// assert!(config.try_write().await?.is_none(), "it is being read");
/// drop((one, two));
/// let writer = config.write().await?;
/// assert!(locks.mutex("config").try_lock().await?.is_none(), "a mutex is the writer of its key");
/// # drop(writer);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
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

impl RwLock {
    terms!();

    /// Waits until it may read. Cancel-safe, like [`Mutex::lock`](crate::Mutex::lock).
    pub fn read(&self) -> impl Future<Output = Result<Guard>> + Send + use<> {
        self.claim.wait(Share::READER)
    }

    /// Reads if nobody writes or waits to, and answers `None` otherwise.
    pub fn try_read(&self) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.claim.attempt(Share::READER)
    }

    /// Waits for so long until it may read, and answers `None` if that was in vain.
    pub fn try_read_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.claim.wait_for(Share::READER, time)
    }

    /// Waits until it may write. Cancel-safe, like [`Mutex::lock`](crate::Mutex::lock).
    pub fn write(&self) -> impl Future<Output = Result<WriteGuard>> + Send + use<> {
        let written = self.claim.wait(Share::WHOLE);
        async move { written.await.map(WriteGuard) }
    }

    /// Writes if nobody reads, writes or waits, and answers `None` otherwise.
    pub fn try_write(&self) -> impl Future<Output = Result<Option<WriteGuard>>> + Send + use<> {
        let written = self.claim.attempt(Share::WHOLE);
        async move { Ok(written.await?.map(WriteGuard)) }
    }

    /// Waits for so long until it may write, and answers `None` if that was in vain.
    pub fn try_write_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<WriteGuard>>> + Send + use<> {
        let written = self.claim.wait_for(Share::WHOLE, time);
        async move { Ok(written.await?.map(WriteGuard)) }
    }
}

/// The right to write, until it is released, dropped, downgraded or lost.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let config = locks.rwlock("config");
/// let writer = config.write().await?;
/// // It writes, and then reads on: no other writer has come between.
/// let reader = writer.downgrade().await?;
/// assert!(config.try_read().await?.is_some());
/// # drop(reader);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    /// Becomes a reader without letting go: no writer can come between.
    ///
    /// If the store cannot be reached, it reads all the same, and other readers wait until the next renewal
    /// comes through. If the lock is lost, or the store refuses, the error says so, and what is left of the
    /// lock is given back.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the lock back.
    pub async fn downgrade(self) -> Result<Guard> {
        self.0.shrink(Share::READER).await?;
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
