//! A rate limiter: a few tries at once, then one in a fixed interval.

use std::time::{Duration, Instant};

/// Number of tries that may follow each other without a pause, by default.
pub const AT_ONCE: u32 = 8;
/// Interval of the tries after those, by default.
pub const EACH: Duration = Duration::from_millis(250);

/// A rate limiter for tries such as connections to one server.
#[derive(Clone, Copy, Debug)]
pub struct RateLimiter {
    at_once: u32,
    each: Duration,
    /// When the tries so far would end if each took `each`.
    used_up: Option<Instant>,
}

impl Default for RateLimiter {
    /// A limiter of [`AT_ONCE`] and [`EACH`].
    fn default() -> Self {
        Self::new(AT_ONCE, EACH)
    }
}

impl RateLimiter {
    /// A limiter of `at_once` tries without a pause, and then one in each interval `each`.
    pub const fn new(at_once: u32, each: Duration) -> Self {
        Self { at_once, each, used_up: None }
    }

    /// Returns after how long one more try may be made, or `None` if that is longer than `within`.
    /// Reserves `left_to_others` of the tries that may be made without a pause.
    pub fn turn(
        &mut self,
        now: Instant,
        left_to_others: u32,
        within: Duration,
    ) -> Option<Duration> {
        let used_up = self.used_up.map_or(now, |used_up| used_up.max(now));
        let at_once = self.at_once.saturating_sub(left_to_others).max(1);
        let turn = (used_up - now).saturating_sub(self.each * (at_once - 1));
        if turn > within {
            return None;
        }
        self.used_up = Some(used_up + self.each);
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_tries_go_at_once_and_the_others_wait_up_to_the_limit() {
        let (mut limiter, now) = (RateLimiter::default(), Instant::now());
        let within = Duration::from_secs(2);
        let turns: Vec<_> = std::iter::from_fn(|| limiter.turn(now, 0, within)).take(100).collect();
        assert_eq!(turns.iter().filter(|turn| turn.is_zero()).count(), AT_ONCE as usize);
        assert_eq!(turns.last(), Some(&within));
        assert_eq!(limiter.turn(now + EACH, 0, within), Some(within), "time has passed");
    }

    #[test]
    fn tries_that_are_left_to_others_remain_for_them() {
        let (mut limiter, now) = (RateLimiter::default(), Instant::now());
        while limiter.turn(now, 3, Duration::ZERO).is_some() {}
        let others = std::iter::from_fn(|| limiter.turn(now, 0, Duration::ZERO)).take(100).count();
        assert_eq!(others, 3);
    }
}
