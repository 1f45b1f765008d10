//! A counter that starts anew with every window, as a rate limiter counts.

use std::time::Duration;

use crate::api::claim::Claim;
use crate::blocking::Blocking;
use crate::lease::span::shown;
use crate::{CounterValue, Engine as _, Error, Locks, NUMBER_MAX, Result, TTL_MAX, Window};

/// Counts within a window of time, which begins with the first count. Made by [`Locks::counter`].
///
/// ```
/// use std::time::Duration;
///
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let calls = locks.counter("api/alice").window(Duration::from_secs(60)).limit(2);
/// assert!(calls.add(1).await?.allowed);
/// assert!(calls.add(1).await?.allowed);
/// assert!(!calls.add(1).await?.allowed, "two a minute are allowed");
/// assert_eq!(calls.get().await?.value, 2);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a counter counts nothing until it is asked to"]
pub struct Counter {
    claim: Claim,
    window: Window,
}

impl Locks {
    /// The counter of this name, with a window of one second until another is named. It has nothing
    /// to do with a lock or a sequence of the same name.
    pub fn counter(&self, key: impl AsRef<str>) -> Counter {
        let window = Window { per: Duration::from_secs(1), limit: None };
        Counter { claim: Claim::new(self, key), window }
    }
}

impl Counter {
    /// The same for programs without async.
    pub fn blocking(&self) -> Blocking<Self> {
        Blocking::new(self.clone())
    }

    /// How long a window lasts. A window that runs goes on as it began.
    pub fn window(mut self, per: Duration) -> Self {
        self.window.per = per;
        self
    }

    /// A count that would go above this within a window is refused, and counts nothing.
    pub fn limit(mut self, limit: u64) -> Self {
        self.window.limit = Some(limit);
        self
    }

    /// Counts, unless that goes above the limit.
    ///
    /// Where the answer is lost it is unknown whether it was counted, and it is not tried again: a
    /// count may be too high then, never too low.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the count may have grown or not.
    pub fn add(&self, by: u64) -> impl Future<Output = Result<CounterValue>> + Send + use<> {
        let Self { claim, window } = self.clone();
        async move {
            if by > NUMBER_MAX {
                return Err(Error::invalid(format!(
                    "a count cannot grow by {by}: name at most {NUMBER_MAX}"
                )));
            }
            if window.per.is_zero() || window.per > TTL_MAX {
                return Err(Error::invalid(format!(
                    "a window of {} cannot be kept: it must be more than 0, and at most {}",
                    shown(window.per),
                    shown(TTL_MAX)
                )));
            }
            claim.locks.inner.engine.add(claim.key()?, by, Some(window)).await
        }
    }

    /// The count of the window that runs, without adding to it.
    pub fn get(&self) -> impl Future<Output = Result<CounterValue>> + Send + use<> {
        self.add(0)
    }
}
