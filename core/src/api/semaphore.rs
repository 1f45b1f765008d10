//! A semaphore: each holder takes some of its permits.

use std::time::Duration;

use crate::api::claim::{Claim, terms};
use crate::{Error, Guard, Locks, Result, Share};

/// Maximum permits of a semaphore.
pub const PERMITS_MAX: u32 = 1_000_000;

/// A lock with a fixed number of permits. Made by [`Locks::semaphore`].
///
/// All clients must use the same number of permits for a key. Another number is refused while the
/// line has a ticket. If a holder dies, its permits become free when its lease expires.
///
/// It limits load. A resource cannot conclude from a [token](crate::LeaseHandle::token) whether a
/// permit is still held. If one holder too many does harm, use a mutex for each of the things
/// instead.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let licences = locks.semaphore("licences", 5);
/// let two = licences.acquire_many(2).await?;
/// let three = licences.acquire_many(3).await?;
/// assert!(licences.try_acquire().await?.is_none(), "all five are out");
/// # drop((two, three));
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a semaphore holds nothing until it is asked to"]
pub struct Semaphore {
    claim: Claim,
    permits: u32,
}

impl Locks {
    /// The semaphore of this key, with this number of permits. It sends no request.
    pub fn semaphore(&self, key: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore { claim: Claim::new(self, key), permits }
    }
}

impl Semaphore {
    terms!();

    /// Waits for one permit. Errors and cancel safety are those of
    /// [`Mutex::lock`](crate::Mutex::lock).
    pub fn acquire(&self) -> impl Future<Output = Result<Guard>> + Send + use<> {
        self.acquire_many(1)
    }

    /// Waits for `count` permits, which are taken and released together.
    pub fn acquire_many(&self, count: u32) -> impl Future<Output = Result<Guard>> + Send + use<> {
        let (claim, share) = (self.claim.clone(), self.share(count));
        async move { claim.wait(share?).await }
    }

    /// Takes one permit if one is free and no ticket waits, and returns `None` otherwise.
    pub fn try_acquire(&self) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.try_acquire_many(1)
    }

    /// Takes `count` permits if they are free and no ticket waits, and returns `None` otherwise.
    pub fn try_acquire_many(
        &self,
        count: u32,
    ) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        let (claim, share) = (self.claim.clone(), self.share(count));
        async move { claim.attempt(share?).await }
    }

    /// Waits for one permit for at most `time`, and returns `None` if it got none.
    pub fn try_acquire_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.try_acquire_many_for(1, time)
    }

    /// Waits for `count` permits for at most `time`, and returns `None` if it did not get them.
    pub fn try_acquire_many_for(
        &self,
        count: u32,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        let (claim, share) = (self.claim.clone(), self.share(count));
        async move { claim.wait_for(share?, time).await }
    }

    fn share(&self, count: u32) -> Result<Share> {
        if self.permits > PERMITS_MAX {
            return Err(Error::invalid(format!(
                "a semaphore of {} permits is too large: the maximum is {PERMITS_MAX}",
                self.permits
            )));
        }
        Share::new(count, self.permits)
    }
}
