//! Backoff and jitter of pauses.

use std::time::Duration;

/// A random part of a pause, from half to all of it. Clients that failed at the same moment then
/// try again at different moments.
///
/// ```
/// use std::time::Duration;
/// use tenure_core::jitter;
///
/// let pause = Duration::from_millis(80);
/// assert_eq!(jitter(pause, 0), pause / 2);
/// assert!(jitter(pause, u64::MAX) < pause);
/// ```
#[must_use]
pub fn jitter(pause: Duration, random: u64) -> Duration {
    let part = u32::try_from(random % 512).unwrap_or(0);
    pause / 2 + pause / 1024 * part
}

/// A pause with jitter that doubles with each failure, up to `longest`.
pub(crate) fn backoff(first: Duration, longest: Duration, failed: u32, random: u64) -> Duration {
    jitter(first.saturating_mul(1 << failed.min(16)).min(longest), random)
}
