//! Backoff and jitter of pauses.

use std::time::Duration;

/// The pause with jitter: half of it to all of it. Clients that failed together then do not retry
/// together.
///
/// ```
/// use std::time::Duration;
///
/// let pause = tenure_core::jitter(Duration::from_secs(1), 123);
/// assert!((Duration::from_millis(500)..=Duration::from_secs(1)).contains(&pause));
/// ```
#[must_use]
pub fn jitter(pause: Duration, random: u64) -> Duration {
    let part = u32::try_from(random % 512).unwrap_or(0);
    pause / 2 + pause / 1024 * part
}

/// Exponential backoff: the pause doubles with each failure, up to a maximum, with jitter.
///
/// ```
/// use std::time::Duration;
///
/// let mut backoff = tenure_core::Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
/// assert!(backoff.next(7) <= Duration::from_millis(20));
/// assert!(backoff.next(7) > backoff.clone().reset().next(7));
/// ```
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    failed: u32,
}

impl Backoff {
    /// Pauses from `first` to `max`.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, failed: 0 }
    }

    /// The pause after one more failure, with jitter from the operating system's random numbers.
    pub fn pause(&mut self) -> Duration {
        self.next(getrandom::u64().unwrap_or(0))
    }

    /// The pause after one more failure, with jitter from this random number.
    pub fn next(&mut self, random: u64) -> Duration {
        let pause = self.first.saturating_mul(1 << self.failed.min(16)).min(self.max);
        self.failed = self.failed.saturating_add(1);
        jitter(pause, random)
    }

    /// Begins again with the first pause, after a success.
    pub fn reset(&mut self) -> &mut Self {
        self.failed = 0;
        self
    }
}
