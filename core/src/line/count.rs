//! A windowed count, which starts again when its window is over.

use std::time::Duration;

use crate::errors::checked_sum;
use crate::line::micros;
use crate::{CounterValue, Key, Result, Window};

/// The count of a key in its window, as an engine stores it.
///
/// ```
/// use std::time::Duration;
///
/// use tenure::engine::line::Count;
/// use tenure::{Key, Window};
///
/// let key = Key::new("mails")?;
/// let window = Window { per: Duration::from_secs(60), limit: Some(2) };
/// let (sum, stored) = Count::add(None, &key, 2, window, 1_000_000)?;
/// assert_eq!((sum.value, sum.allowed), (2, true));
/// let (sum, unchanged) = Count::add(stored, &key, 1, window, 2_000_000)?;
/// assert_eq!((sum.value, sum.allowed, unchanged), (2, false, None));
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The count.
    pub value: u64,
    /// The end of the window, by the store's clock in microseconds.
    pub ends_us: u64,
    /// The length of the window, from the request that began it. Requests with another length count
    /// in it, too.
    pub per_us: u64,
}

impl Count {
    /// Adds to the stored count. Returns the answer, and the new count if it changed. See
    /// [`Engine::add`](crate::Engine::add).
    ///
    /// # Errors
    ///
    /// The count would exceed [`NUMBER_MAX`](crate::NUMBER_MAX).
    pub fn add(
        stored: Option<Self>,
        key: &Key,
        by: u64,
        window: Window,
        now_us: u64,
    ) -> Result<(CounterValue, Option<Self>)> {
        let running = stored.filter(|count| count.ends_us > now_us);
        let per_us = running.map_or(micros(window.per), |count| count.per_us);
        let latest = now_us.saturating_add(per_us);
        // A clock that was set back must not make the window longer. The earlier end is stored,
        // because otherwise the end would move with the clock.
        let ends_us = running.map_or(latest, |count| count.ends_us.min(latest));
        let before = running.map_or(0, |count| count.value);
        let is_shorter = running.is_some_and(|count| count.ends_us != ends_us);
        let resets_in = Some(Duration::from_micros(ends_us - now_us));
        let wanted = checked_sum(key, before, by)?;
        let allowed = window.limit.is_none_or(|limit| wanted <= limit);
        let value = if allowed { wanted } else { before };
        let changed = (allowed && by > 0 || is_shorter).then_some(Self { value, ends_us, per_us });
        Ok((CounterValue { value, allowed, resets_in }, changed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_makes_no_window_longer() {
        let (key, s) = (Key::new("k").unwrap(), 1_000_000);
        let window = Window { per: Duration::from_secs(5), limit: Some(3) };
        for by in [1, 0] {
            let (_, mut stored) = Count::add(None, &key, 3, window, 3_600 * s).unwrap();
            let mut seconds = 100..200;
            let opened = seconds.find(|now| {
                let (count, changed) = Count::add(stored, &key, by, window, now * s).unwrap();
                stored = changed.or(stored);
                count.value < 3
            });
            assert_eq!(opened, Some(105), "by {by}");
        }
    }
}
