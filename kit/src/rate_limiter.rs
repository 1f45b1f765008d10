//! Pace: how often something may be tried, such as a connection to one server: a few times at once, and then one after
//! another.

use std::time::{Duration, Instant};

/// So many tries may follow each other without a pause.
pub const AT_ONCE: u32 = 8;
/// After those, one try is made in this time.
pub const EACH: Duration = Duration::from_millis(250);

/// The tries so far, as if they had been made one after another.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateLimiter {
    used_up: Option<Instant>,
}

impl RateLimiter {
    /// Asks for one more try: after how long it may be made. `None`: not within this time. Of those that may be made
    /// [at once](AT_ONCE), so many are left to others.
    pub fn turn(
        &mut self,
        now: Instant,
        left_to_others: u32,
        within: Duration,
    ) -> Option<Duration> {
        let used_up = self.used_up.map_or(now, |used_up| used_up.max(now));
        let at_once = AT_ONCE.saturating_sub(left_to_others).max(1);
        let turn = (used_up - now).saturating_sub(EACH * (at_once - 1));
        if turn > within {
            return None;
        }
        self.used_up = Some(used_up + EACH);
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_go_at_once_and_the_others_one_after_another_until_it_is_too_long() {
        let (mut pace, now) = (RateLimiter::default(), Instant::now());
        let within = Duration::from_secs(2);
        let turns: Vec<_> = std::iter::from_fn(|| pace.turn(now, 0, within)).take(100).collect();
        assert_eq!(turns.iter().filter(|turn| turn.is_zero()).count(), AT_ONCE as usize);
        assert_eq!(turns.last(), Some(&within));
        assert_eq!(pace.turn(now + EACH, 0, within), Some(within), "time has passed");
    }

    #[test]
    fn what_is_left_to_others_is_there_for_them() {
        let (mut pace, now) = (RateLimiter::default(), Instant::now());
        while pace.turn(now, 3, Duration::ZERO).is_some() {}
        let others = std::iter::from_fn(|| pace.turn(now, 0, Duration::ZERO)).take(100).count();
        assert_eq!(others, 3);
    }
}
