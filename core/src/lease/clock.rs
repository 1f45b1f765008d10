//! The holder's clock: two readings that only go forward, of which one includes sleep of the
//! machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment by both clocks. A deadline is over as soon as *either* clock has reached it.
///
/// | system | `boot` | `raw` |
/// |---|---|---|
/// | Linux | `CLOCK_BOOTTIME`: includes sleep of the machine | `CLOCK_MONOTONIC_RAW`: its rate cannot be adjusted |
/// | macOS | `CLOCK_MONOTONIC`: includes sleep of the machine | the same |
/// | elsewhere | [`std::time::Instant`], which may exclude sleep of the machine | the same |
///
/// ```
/// use std::time::Duration;
///
/// use tenure::engine::{Clock, SystemClock};
///
/// let now = SystemClock.now();
/// let due = now.plus(Duration::from_secs(10));
/// assert!(!now.has_reached(due));
/// assert_eq!(now.until(due), Duration::from_secs(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Time {
    /// Nanoseconds, including sleep.
    pub boot_ns: u64,
    /// Nanoseconds at the oscillator's own rate.
    pub raw_ns: u64,
}

impl Time {
    /// A moment that never comes.
    pub const NEVER: Self = Self { boot_ns: u64::MAX, raw_ns: u64::MAX };

    /// Whether either clock has reached `moment`.
    pub fn has_reached(self, moment: Self) -> bool {
        self.boot_ns >= moment.boot_ns || self.raw_ns >= moment.raw_ns
    }

    /// The moment that is `duration` later by both clocks.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self { boot_ns: self.boot_ns.saturating_add(ns), raw_ns: self.raw_ns.saturating_add(ns) }
    }

    /// The time until `moment`, by the clock that reaches it first.
    pub fn until(self, moment: Self) -> Duration {
        let boot = moment.boot_ns.saturating_sub(self.boot_ns);
        let raw = moment.raw_ns.saturating_sub(self.raw_ns);
        Duration::from_nanos(boot.min(raw))
    }

    /// The time until `moment`, by the clock that reaches it last.
    pub fn until_last(self, moment: Self) -> Duration {
        let boot = moment.boot_ns.saturating_sub(self.boot_ns);
        let raw = moment.raw_ns.saturating_sub(self.raw_ns);
        Duration::from_nanos(boot.max(raw))
    }

    /// The later of two moments, by each clock.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { boot_ns: self.boot_ns.max(other.boot_ns), raw_ns: self.raw_ns.max(other.raw_ns) }
    }

    /// The earlier of two moments, by each clock.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { boot_ns: self.boot_ns.min(other.boot_ns), raw_ns: self.raw_ns.min(other.raw_ns) }
    }
}

/// The source of all time in Tenure, so that a simulation can replace it.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use tenure::engine::{Clock, Engine, Memory, Time};
///
/// /// A clock that stands still until a test moves it.
/// struct StoppedClock(AtomicU64);
///
/// impl Clock for StoppedClock {
///     fn now(&self) -> Time {
///         let ns = self.0.load(Ordering::Relaxed);
///         Time { boot_ns: ns, raw_ns: ns }
///     }
///
///     fn wall_us(&self) -> u64 {
///         self.0.load(Ordering::Relaxed) / 1_000
///     }
/// }
///
/// let store = Memory::with_clock(StoppedClock(AtomicU64::new(0)));
/// assert_eq!(store.guarantees().name, "memory");
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Time;

    /// Microseconds since 1970 by the wall clock, for display only.
    fn wall_us(&self) -> u64;
}

/// The clocks of this machine.
///
/// ```
/// use tenure::engine::{Clock, SystemClock};
///
/// let before = SystemClock.now();
/// assert!(SystemClock.now().has_reached(before), "it only goes forward");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        system::now()
    }

    fn wall_us(&self) -> u64 {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use rustix::time::{ClockId, Timespec, clock_gettime};

    use super::Time;

    pub(super) fn now() -> Time {
        Time {
            boot_ns: nanos(clock_gettime(ClockId::Boottime)),
            raw_ns: nanos(clock_gettime(ClockId::MonotonicRaw)),
        }
    }

    fn nanos(time: Timespec) -> u64 {
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
    }
}

#[cfg(target_vendor = "apple")]
mod system {
    use rustix::time::{ClockId, clock_gettime};

    use super::Time;

    pub(super) fn now() -> Time {
        let time = clock_gettime(ClockId::Monotonic);
        let ns = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
        Time { boot_ns: ns, raw_ns: ns }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
mod system {
    use std::sync::LazyLock;
    use std::time::Instant;

    use super::Time;

    pub(super) fn now() -> Time {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        let ns = u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Time { boot_ns: ns, raw_ns: ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_clock_is_enough() {
        let due = Time { boot_ns: 10, raw_ns: 10 };
        assert!(!Time { boot_ns: 9, raw_ns: 9 }.has_reached(due));
        assert!(Time { boot_ns: 10, raw_ns: 1 }.has_reached(due), "the machine slept");
        assert!(Time { boot_ns: 1, raw_ns: 10 }.has_reached(due), "the clock was bent");
    }

    #[test]
    fn time_never_overflows() {
        assert_eq!(Time { boot_ns: 5, raw_ns: 5 }.plus(Duration::MAX), Time::NEVER);
        assert_eq!(Time::NEVER.until(Time { boot_ns: 0, raw_ns: 0 }), Duration::ZERO);
    }

    #[test]
    fn the_system_clock_goes_forward() {
        let before = SystemClock.now();
        assert!(SystemClock.now().has_reached(before));
    }
}
