//! A timer by the clock that goes on while the machine is suspended.

use std::io;
use std::time::Duration;

use super::signals::Signals;

/// The time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// Poll interval where the timer stands still in a suspend.
const POLL_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Alarm {
    until: u64,
    timer: Timer,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { until: NEVER, timer: Timer::new()? })
    }

    /// Has the timer wake these signals' waits.
    pub(crate) fn wake(&self, signals: &mut Signals) -> io::Result<()> {
        self.timer.wake(signals)
    }

    /// Sets the time, in ns.
    pub(crate) fn set(&mut self, until: u64) {
        if until != self.until {
            self.until = until;
            self.timer.set(until);
        }
    }

    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.until
    }

    /// The time that is left. `None`: no time is set.
    pub(crate) fn remaining(&self, now: u64) -> Option<Duration> {
        (self.until != NEVER).then(|| Duration::from_nanos(self.until.saturating_sub(now)))
    }

    /// Whether the clock must be polled.
    pub(crate) fn must_be_polled(&self) -> bool {
        Timer::STANDS_STILL && self.until != NEVER
    }

    /// Maximum sleep between two polls.
    pub(crate) fn pause(&self) -> Duration {
        if self.must_be_polled() { POLL_EVERY } else { Duration::MAX }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
struct Timer(std::os::fd::OwnedFd);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Timer {
    const STANDS_STILL: bool = false;

    fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        Ok(Self(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?))
    }

    fn wake(&self, signals: &mut Signals) -> io::Result<()> {
        signals.wake_on(&self.0)
    }

    fn set(&self, until: u64) {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        // timerfd treats zero as "disarm".
        let until = if until == NEVER { 0 } else { until };
        let second = 1_000_000_000;
        let it_value = Timespec {
            tv_sec: i64::try_from(until / second).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(until % second).unwrap_or(0),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let moment = Itimerspec { it_interval, it_value };
        // It fails only for arguments that are not a timer or not a time.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &moment);
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
struct Timer;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Timer {
    const STANDS_STILL: bool = true;

    #[allow(clippy::unnecessary_wraps, reason = "it can fail on Linux")]
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "it can fail on Linux")]
    fn wake(&self, _: &mut Signals) -> io::Result<()> {
        Ok(())
    }

    #[allow(clippy::unused_self, reason = "Linux has a timer")]
    fn set(&self, _: u64) {}
}
