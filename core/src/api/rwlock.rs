//! A reader-writer lock: a reader takes the smallest share of the line, a writer all of it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::api::claim::{Claim, terms};
use crate::{Guard, Locks, Result, Share};

/// A lock with many readers or one writer. Made by [`Locks::rwlock`].
///
/// Its writer is the [`Mutex`](crate::Mutex) of the same key.
///
/// Readers that come after a waiting writer wait behind it, so a stream of readers does not starve
/// the writer. A reader cannot become a writer: two readers that tried would wait for each other. A
/// writer can become a reader with [`downgrade`](WriteGuard::downgrade).
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
    /// The reader-writer lock of this key. It sends no request.
    pub fn rwlock(&self, key: impl AsRef<str>) -> RwLock {
        RwLock { claim: Claim::new(self, key) }
    }
}

impl RwLock {
    terms!();

    /// Waits until it may read. Errors and cancel safety are those of
    /// [`Mutex::lock`](crate::Mutex::lock).
    pub fn read(&self) -> impl Future<Output = Result<Guard>> + Send + use<> {
        self.claim.wait(Share::READER)
    }

    /// Reads if no writer holds or waits, and returns `None` otherwise.
    pub fn try_read(&self) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.claim.attempt(Share::READER)
    }

    /// Waits for at most `time` until it may read, and returns `None` if it could not.
    pub fn try_read_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.claim.wait_for(Share::READER, time)
    }

    /// Waits until it may write. Errors and cancel safety are those of
    /// [`Mutex::lock`](crate::Mutex::lock).
    pub fn write(&self) -> impl Future<Output = Result<WriteGuard>> + Send + use<> {
        let written = self.claim.wait(Share::WHOLE);
        async move { written.await.map(WriteGuard) }
    }

    /// Writes if the line is empty, and returns `None` otherwise.
    pub fn try_write(&self) -> impl Future<Output = Result<Option<WriteGuard>>> + Send + use<> {
        let written = self.claim.attempt(Share::WHOLE);
        async move { Ok(written.await?.map(WriteGuard)) }
    }

    /// Waits for at most `time` until it may write, and returns `None` if it could not.
    pub fn try_write_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<WriteGuard>>> + Send + use<> {
        let written = self.claim.wait_for(Share::WHOLE, time);
        async move { Ok(written.await?.map(WriteGuard)) }
    }
}

/// The guard of a writer, until it is released, dropped, downgraded or lost.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let config = locks.rwlock("config");
/// let writer = config.write().await?;
/// // It writes, then goes on as a reader: no other writer comes between.
/// let reader = writer.downgrade().await?;
/// assert!(config.try_read().await?.is_some());
/// # drop(reader);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct WriteGuard(Guard);

impl WriteGuard {
    /// Becomes a reader without a release in between, so no other writer comes between.
    ///
    /// If the store is unreachable, the guard becomes a reader all the same. Other readers then
    /// wait until the next renewal succeeds.
    ///
    /// # Errors
    ///
    /// The lock is lost, or the store refuses. The lock is then released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock.
    pub async fn downgrade(self) -> Result<Guard> {
        self.0.shrink(Share::READER).await?;
        Ok(self.0)
    }

    /// Releases the lock. See [`Guard::release`].
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
