//! A lease from the command's side: how long the lock is valid, and how much of that is reserved
//! for ending the command.

use std::time::Duration;

use tenure::LeaseHandle;
use tenure::engine::{Clock as _, SystemClock};

use super::alarm::NEVER;

/// Minimum interval between two looks at the lease.
const LOOK_MIN: Duration = Duration::from_millis(5);
/// Maximum part of a lease that is reserved for killing.
const KILL_MAX: Duration = Duration::from_millis(250);

/// The lease of a held lock, if the store has leases.
pub(crate) struct Lease {
    /// The lock is valid until this time, in ns; of a lost lock, it was valid until then.
    until: u64,
    /// The longest remaining time so far. A store may grant less than requested, and less after an
    /// outage than before.
    longest: Duration,
    kill_after: Duration,
}

impl Lease {
    /// Returns the lease of a guard; `kill_after` is the time for the command to end in.
    pub(crate) fn of(guard: &LeaseHandle, kill_after: Duration) -> Self {
        let mut lease = Self { until: NEVER, longest: Duration::ZERO, kill_after };
        lease.renew(guard);
        lease
    }

    /// Takes over the guard's last renewal.
    pub(crate) fn renew(&mut self, guard: &LeaseHandle) {
        self.until = until(guard);
        if self.exists() {
            self.longest = self.longest.max(self.remaining());
        }
    }

    /// The lock is valid until this time, in ns; [`NEVER`] without a lease.
    pub(crate) fn until(&self) -> u64 {
        self.until
    }

    pub(crate) fn exists(&self) -> bool {
        self.until != NEVER
    }

    /// Whether the remaining time is needed for ending the command.
    pub(crate) fn is_short(&self) -> bool {
        self.remaining() <= self.reserve()
    }

    /// Returns when to look at the lease again. The keeper needs each renewal soon: if this process
    /// is stopped, it goes by the last deadline that it received.
    pub(crate) fn next_look(&self) -> Duration {
        self.remaining().saturating_sub(self.reserve()).min(self.longest / 8).max(LOOK_MIN)
    }

    /// How long the command may take to end after TERM.
    pub(crate) fn grace(&self) -> Duration {
        self.remaining().saturating_sub(self.killing()).min(self.kill_after)
    }

    /// How long the lock is valid; of a lost lock, how long its ticket stays in the store.
    fn remaining(&self) -> Duration {
        match self.until {
            NEVER => Duration::MAX,
            until => Duration::from_nanos(until.saturating_sub(SystemClock.now().boot_ns)),
        }
    }

    /// The part of a lease that is reserved for ending the command: small enough that one failed
    /// renewal does not end it.
    fn reserve(&self) -> Duration {
        self.kill_after.min(self.longest / 6) + self.killing()
    }

    /// The part of a lease that is reserved for killing.
    fn killing(&self) -> Duration {
        KILL_MAX.min(self.longest / 40)
    }
}

/// A guard is valid until this time, in ns.
pub(crate) fn until(guard: &LeaseHandle) -> u64 {
    // The clock first: a suspend between the two must not lengthen the lease.
    let now = SystemClock.now();
    guard.remaining().map_or(NEVER, |remaining| now.plus(remaining).boot_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(remaining: Duration, longest: Duration) -> Lease {
        let until = SystemClock.now().plus(remaining).boot_ns;
        Lease { until, longest, kill_after: Duration::from_secs(5) }
    }

    #[test]
    fn a_lease_is_short_by_its_granted_and_not_by_its_requested_time() {
        // The store was asked for 30 s and has granted 10 s, or 3 s after an outage.
        for longest in [10, 3].map(Duration::from_secs) {
            assert!(!lease(longest, longest).is_short());
            assert!(!lease(longest * 2 / 5, longest).is_short(), "a renewal has failed");
            assert!(lease(longest / 6, longest).is_short());
        }
    }

    #[test]
    fn a_lock_without_a_lease_is_never_short() {
        let endless = Lease { until: NEVER, ..lease(Duration::ZERO, Duration::ZERO) };
        assert!(!endless.exists() && !endless.is_short());
    }
}
