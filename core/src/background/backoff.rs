//! Uneven: a pause that differs from one client to the next.

use std::time::Duration;

/// From half of a pause to almost all of it, by a random number, so that clients who failed at the same moment do not
/// come back at the same moment.
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

/// An uneven pause that doubles with each failure before it, up to the longest.
pub(crate) fn backoff(first: Duration, longest: Duration, failed: u32, random: u64) -> Duration {
    jitter(first.saturating_mul(1 << failed.min(16)).min(longest), random)
}
