//! A lease, as far as its command is concerned: until when the lock can be relied on, and how much of that is kept for the
//! command's end.

use std::time::Duration;

use tenure::Guard;
use tenure::engine::{Clock as _, SystemClock};

use crate::alarm::NEVER;

/// A lease that is about to end is not looked at more often.
const LOOK_MIN: Duration = Duration::from_millis(5);
/// Killing takes time, too: at most so much of a lease is kept for it.
const KILL_MAX: Duration = Duration::from_millis(250);

/// The lease of a lock that is held; if there is one.
pub(crate) struct Lease {
    /// Until when the lock can be relied on, or could be before it was lost; in ns.
    until: u64,
    /// The most that it ever had. A store may grant less than it was asked for, and after an outage less than before.
    longest: Duration,
    kill_after: Duration,
}

impl Lease {
    /// That of a guard, with so much time wanted for the command's end.
    pub(crate) fn of(guard: &Guard, kill_after: Duration) -> Self {
        let mut lease = Self { until: NEVER, longest: Duration::ZERO, kill_after };
        lease.renew(guard);
        lease
    }

    /// The guard may have been renewed meanwhile.
    pub(crate) fn renew(&mut self, guard: &Guard) {
        self.until = until(guard);
        if self.is_one() {
            self.longest = self.longest.max(self.remaining());
        }
    }

    /// Until when the lock can be relied on, in ns; [`NEVER`] if that has no end.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    pub(crate) fn is_one(&self) -> bool {
        self.until != NEVER
    }

    /// So much is left that the command needs it to end.
    pub(crate) fn is_short(&self) -> bool {
        self.remaining() <= self.grace()
    }

    /// The lock is renewed meanwhile, and the keeper is to know of that soon: if this process is
    /// stopped, it goes by what it was told last.
    pub(crate) fn next_look(&self) -> Duration {
        self.remaining().saturating_sub(self.grace()).min(self.longest / 8).max(LOOK_MIN)
    }

    /// How long the command may take to end by itself.
    pub(crate) fn patience(&self) -> Duration {
        self.remaining().saturating_sub(self.killing()).min(self.kill_after)
    }

    /// How long the lock can be relied on; or how long its place in the store lives on after it was lost.
    fn remaining(&self) -> Duration {
        match self.until {
            NEVER => Duration::MAX,
            until => Duration::from_nanos(until.saturating_sub(SystemClock.now().boot_ns)),
        }
    }

    /// How much of a lease that is not renewed is kept for the command's end: never so much that
    /// a single failed renewal would end it.
    fn grace(&self) -> Duration {
        self.kill_after.min(self.longest / 6) + self.killing()
    }

    /// How much of a lease is kept for killing.
    fn killing(&self) -> Duration {
        KILL_MAX.min(self.longest / 40)
    }
}

/// Until when a guard can be relied on, in ns.
pub(crate) fn until(guard: &Guard) -> u64 {
    let remaining = guard.remaining();
    remaining.map_or(NEVER, |remaining| SystemClock.now().plus(remaining).boot_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(remaining: Duration, longest: Duration) -> Lease {
        let until = SystemClock.now().plus(remaining).boot_ns;
        Lease { until, longest, kill_after: Duration::from_secs(5) }
    }

    #[test]
    fn a_lease_is_short_by_what_it_had_and_not_by_what_was_asked_for() {
        // A store that was asked for half a minute has granted ten seconds, or three after an outage.
        for longest in [10, 3].map(Duration::from_secs) {
            assert!(!lease(longest, longest).is_short());
            assert!(!lease(longest * 2 / 5, longest).is_short(), "a renewal has failed");
            assert!(lease(longest / 6, longest).is_short());
        }
    }

    #[test]
    fn what_has_no_end_is_never_short() {
        let endless = Lease { until: NEVER, ..lease(Duration::ZERO, Duration::ZERO) };
        assert!(!endless.is_one() && !endless.is_short());
    }
}
