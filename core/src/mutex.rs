//! A mutex: one of one.

use std::time::Duration;

use crate::claim::{Claim, terms};
use crate::{Guard, Locks, Result, Share};

/// At most one holder at a time. Made by [`Locks::mutex`].
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
    /// # Cancel safety
    ///
    /// Dropping the future leaves the line; nothing stays behind. So any time-out will do.
    pub async fn lock(&self) -> Result<Guard> {
        self.claim.wait(Share::WHOLE).await
    }

    /// Takes the lock if it is free, and answers `None` if it is not.
    pub async fn try_lock(&self) -> Result<Option<Guard>> {
        self.claim.attempt(Share::WHOLE).await
    }

    /// Waits for the lock for so long, and answers `None` if that was in vain.
    pub async fn lock_within(&self, time: Duration) -> Result<Option<Guard>> {
        self.claim.wait_for(Share::WHOLE, time).await
    }
}
