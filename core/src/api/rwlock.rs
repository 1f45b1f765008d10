//! A reader-writer lock: a reader takes the smallest share of the line, a writer all of it.

use std::time::Duration;

use crate::api::claim::{Claim, lease_options};
use crate::{Locks, ReadGuard, Result, Share, WriteGuard};

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
    lease_options!();

    /// Waits until it may read. Cancel safety is that of
    /// [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn read(&self) -> impl Future<Output = Result<ReadGuard>> + Send + use<> {
        let read = self.claim.wait(Share::READER);
        async move { read.await.map(ReadGuard) }
    }

    /// Reads if no writer holds or waits, and returns `None` otherwise.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn try_read(&self) -> impl Future<Output = Result<Option<ReadGuard>>> + Send + use<> {
        let read = self.claim.attempt(Share::READER);
        async move { Ok(read.await?.map(ReadGuard)) }
    }

    /// Waits for at most `time` until it may read, and returns `None` if it could not.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn try_read_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<ReadGuard>>> + Send + use<> {
        let read = self.claim.wait_for(Share::READER, time);
        async move { Ok(read.await?.map(ReadGuard)) }
    }

    /// Waits until it may write. Cancel safety is that of
    /// [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn write(&self) -> impl Future<Output = Result<WriteGuard>> + Send + use<> {
        let written = self.claim.wait(Share::WHOLE);
        async move { written.await.map(WriteGuard) }
    }

    /// Writes if the line is empty, and returns `None` otherwise.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn try_write(&self) -> impl Future<Output = Result<Option<WriteGuard>>> + Send + use<> {
        let written = self.claim.attempt(Share::WHOLE);
        async move { Ok(written.await?.map(WriteGuard)) }
    }

    /// Waits for at most `time` until it may write, and returns `None` if it could not.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn try_write_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<WriteGuard>>> + Send + use<> {
        let written = self.claim.wait_for(Share::WHOLE, time);
        async move { Ok(written.await?.map(WriteGuard)) }
    }
}
