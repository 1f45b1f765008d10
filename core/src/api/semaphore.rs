//! A semaphore: each holder takes some of its permits.

use std::time::Duration;

use crate::api::claim::{Claim, lease_options};
use crate::{Error, Locks, Permit, Result, Share};

/// Maximum permits of a semaphore.
pub const PERMITS_MAX: u32 = 1_000_000;

/// A lock with a fixed number of permits. Made by [`Locks::semaphore`].
///
/// All clients must use the same number of permits for a key. Another number is refused while the
/// line has a ticket. If a holder dies, its permits become free when its lease expires.
///
/// It limits load. A permit has no [token](crate::Token), because no number shows whether it is
/// still held. If one holder too many does harm, use a mutex for each of the things
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
    lease_options!();

    /// Waits for one permit. Cancel safety is that of
    /// [`Mutex::lock`](crate::Mutex::lock).
    pub fn acquire(&self) -> impl Future<Output = Result<Permit>> + Send + use<> {
        self.acquire_many(1)
    }

    /// Waits for `count` permits, which are taken and released together.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn acquire_many(&self, count: u32) -> impl Future<Output = Result<Permit>> + Send + use<> {
        let (claim, share) = (self.claim.clone(), self.share(count));
        async move { claim.wait(share?).await.map(Permit) }
    }

    /// Takes one permit if one is free and no ticket waits, and returns `None` otherwise.
    pub fn try_acquire(&self) -> impl Future<Output = Result<Option<Permit>>> + Send + use<> {
        self.try_acquire_many(1)
    }

    /// Takes `count` permits if they are free and no ticket waits, and returns `None` otherwise.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn try_acquire_many(
        &self,
        count: u32,
    ) -> impl Future<Output = Result<Option<Permit>>> + Send + use<> {
        let (claim, share) = (self.claim.clone(), self.share(count));
        async move { Ok(claim.attempt(share?).await?.map(Permit)) }
    }

    /// Waits for one permit for at most `time`, and returns `None` if it got none.
    pub fn try_acquire_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Permit>>> + Send + use<> {
        self.try_acquire_many_for(1, time)
    }

    /// Waits for `count` permits for at most `time`, and returns `None` if it did not get them.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn try_acquire_many_for(
        &self,
        count: u32,
        time: Duration,
    ) -> impl Future<Output = Result<Option<Permit>>> + Send + use<> {
        let (claim, share) = (self.claim.clone(), self.share(count));
        async move { Ok(claim.wait_for(share?, time).await?.map(Permit)) }
    }

    fn share(&self, count: u32) -> Result<Share> {
        if self.permits == 0 || self.permits > PERMITS_MAX {
            return Err(Error::invalid(format!(
                "a semaphore cannot have {} permits: it must have 1 to {PERMITS_MAX}",
                self.permits
            )));
        }
        Share::new(count, self.permits)
    }
}
