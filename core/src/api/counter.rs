//! A counter that starts again with every time window, as in a rate limiter.

use std::time::Duration;

use crate::api::claim::Claim;
use crate::blocking::Blocking;
use crate::lease::span::shown;
use crate::{CounterValue, Engine as _, Error, Locks, NUMBER_MAX, Result, TTL_MAX, Window};

/// A counter with a time window, which begins with the first count. Made by [`Locks::counter`].
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
    /// The counter of this key, with a window of one second by default. It is independent of a lock
    /// or a sequence of the same key.
    pub fn counter(&self, key: impl AsRef<str>) -> Counter {
        let window = Window { per: Duration::from_secs(1), limit: None };
        Counter { claim: Claim::new(self, key), window }
    }
}

impl Counter {
    /// The blocking form, for programs without async.
    pub fn blocking(&self) -> Blocking<Self> {
        Blocking::new(self.clone())
    }

    /// The length of a window. A window that has begun keeps its length.
    pub fn window(mut self, per: Duration) -> Self {
        self.window.per = per;
        self
    }

    /// The maximum count in a window. An addition that would exceed it changes nothing.
    pub fn limit(mut self, limit: u64) -> Self {
        self.window.limit = Some(limit);
        self
    }

    /// Adds to the count, unless it would exceed the limit.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](crate::ErrorKind::Unavailable): the count may or may not have grown. The
    /// request is not repeated, so a lost answer never counts twice.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the count may or may not have grown.
    pub fn add(&self, by: u64) -> impl Future<Output = Result<CounterValue>> + Send + use<> {
        let Self { claim, window } = self.clone();
        async move {
            if by > NUMBER_MAX {
                return Err(Error::invalid(format!(
                    "a count cannot grow by {by}: the maximum is {NUMBER_MAX}"
                )));
            }
            if window.per.is_zero() || window.per > TTL_MAX {
                return Err(Error::invalid(format!(
                    "a window of {} is not possible: it must be longer than 0, and at most {}",
                    shown(window.per),
                    shown(TTL_MAX)
                )));
            }
            claim.locks.client.open_engine()?.add(claim.key()?, by, Some(window)).await
        }
    }

    /// The count of the present window.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub fn get(&self) -> impl Future<Output = Result<CounterValue>> + Send + use<> {
        self.add(0)
    }
}
