//! A windowed count: it starts anew when its window is over.

use std::time::Duration;

use crate::line::micros;
use crate::refusal::checked_sum;
use crate::{Key, Result, Tally, Window};

/// What a key has come to in its window, as an engine stores it.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_core::line::Count;
/// use tenure_core::{Key, Window};
///
/// let (key, window) = (Key::new("mails")?, Window { per: Duration::from_secs(60), limit: Some(2) });
/// let (tally, stored) = Count::add(None, &key, 2, window, 1_000_000)?;
/// assert_eq!((tally.value, tally.allowed), (2, true));
/// let (tally, unchanged) = Count::add(stored, &key, 1, window, 2_000_000)?;
/// assert_eq!((tally.value, tally.allowed, unchanged), (2, false, None));
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// So many.
    pub value: u64,
    /// When the window is over, by the store's clock in microseconds.
    pub ends_us: u64,
}

impl Count {
    /// Adds to what is stored, and says what to answer, and what to store if anything changed. See
    /// [`Engine::tally`](crate::Engine::tally).
    pub fn add(
        stored: Option<Self>,
        key: &Key,
        by: u64,
        window: Window,
        now_us: u64,
    ) -> Result<(Tally, Option<Self>)> {
        let latest = now_us.saturating_add(micros(window.per));
        let running = stored.filter(|count| count.ends_us > now_us);
        // A clock that was set back must not make a window longer than it is.
        let ends_us = running.map_or(latest, |count| count.ends_us.min(latest));
        let before = running.map_or(0, |count| count.value);
        let resets_in = Some(Duration::from_micros(ends_us - now_us));
        let wanted = checked_sum(key, before, by)?;
        if window.limit.is_some_and(|limit| wanted > limit) {
            return Ok((Tally { value: before, allowed: false, resets_in }, None));
        }
        let changed = (by > 0).then_some(Self { value: wanted, ends_us });
        Ok((Tally { value: wanted, allowed: true, resets_in }, changed))
    }
}
