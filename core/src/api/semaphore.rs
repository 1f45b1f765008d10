//! A semaphore: k of n.

use std::time::Duration;

use crate::api::claim::{Claim, terms};
use crate::{Error, Guard, Locks, Result, Share};

/// The most permits a semaphore can have.
pub const PERMITS_MAX: u32 = 1_000_000;

/// At most so many permits are out at a time. Made by [`Locks::semaphore`].
///
/// Everyone who uses the key must name the same capacity; another is refused while the line has a
/// ticket. The permits of a holder who died come back with its ticket.
///
/// It limits load. A resource cannot tell by a [token](crate::LeaseHandle::token) whether a permit is still held:
/// where one too many does harm, lock each of the things with a mutex of its own.
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
    /// The semaphore of this name, which has so many permits.
    pub fn semaphore(&self, key: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore { claim: Claim::new(self, key), permits }
    }
}

impl Semaphore {
    terms!();

    /// Waits for one permit. Cancel-safe, like [`Mutex::lock`](crate::Mutex::lock).
    pub fn acquire(&self) -> impl Future<Output = Result<Guard>> + Send + use<> {
        self.acquire_many(1)
    }

    /// Waits for `count` permits, which come and go together.
    pub fn acquire_many(&self, count: u32) -> impl Future<Output = Result<Guard>> + Send + use<> {
        let (claim, share) = (self.claim.clone(), self.share(count));
        async move { claim.wait(share?).await }
    }

    /// Takes one permit if one is free and nobody waits, and answers `None` otherwise.
    pub fn try_acquire(&self) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.try_acquire_many(1)
    }

    /// Takes `count` permits if they are free and nobody waits, and answers `None` otherwise.
    pub fn try_acquire_many(
        &self,
        count: u32,
    ) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        let (claim, share) = (self.claim.clone(), self.share(count));
        async move { claim.attempt(share?).await }
    }

    /// Waits for one permit for so long, and answers `None` if that was in vain.
    pub fn try_acquire_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Guard>>> + Send + use<> {
        self.try_acquire_many_for(1, time)
    }

    /// Waits for `count` permits for so long, and answers `None` if that was in vain.
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
                "a semaphore of {} permits cannot be kept: at most {PERMITS_MAX} are allowed",
                self.permits
            )));
        }
        Share::new(count, self.permits)
    }
}
