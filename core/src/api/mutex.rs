//! A mutex: all of many, so that it is the writer of its key.

use std::time::Duration;

use crate::api::claim::{Claim, terms};
use crate::{Guard, Locks, Result, Share};

/// At most one holder at a time. Made by [`Locks::mutex`].
///
/// It is the writer of its key: `locks.mutex(k)` and `locks.rwlock(k).write()` are one lock.
///
/// ```
/// use std::time::Duration;
///
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let mutex = locks.mutex("invoices/42").ttl(Duration::from_secs(10)).note("month's end");
/// let guard = mutex.lock().await?;
/// assert!(mutex.try_lock().await?.is_none(), "busy is not an error");
/// guard.release().await?;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a mutex locks nothing until it is asked to"]
pub struct Mutex {
    claim: Claim,
}

impl Locks {
    /// The mutex of this name.
    pub fn mutex(&self, key: impl AsRef<str>) -> Mutex {
        Mutex { claim: Claim::new(self, key) }
    }
}

impl Mutex {
    terms!();

    /// Waits for the lock, first come, first served where the store promises it.
    ///
    /// Where tickets live by a session, as with etcd and ZooKeeper, callers of one client that give up faster than the store
    /// serves them are held back in this process: those join later, in random order.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the line; nothing stays behind. So any time-out will do.
    pub fn lock(&self) -> impl Future<Output = Result<Guard>> + Send + use<> {
        self.claim.wait(Share::WHOLE)
    }

    /// Takes the lock if it is free, and answers `None` if it is not.
    pub fn try_lock(&self) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.claim.attempt(Share::WHOLE)
    }

    /// Waits for the lock for so long, and answers `None` if that was in vain. A store that did not answer
    /// within that time is [`Unavailable`](crate::ErrorKind::Unavailable): nobody knows whether the lock is busy.
    pub fn try_lock_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.claim.wait_for(Share::WHOLE, time)
    }
}
