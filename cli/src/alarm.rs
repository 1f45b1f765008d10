//! An alarm goes off at a moment of the clock that goes on while the machine is suspended.

use std::io;
use std::time::Duration;

use crate::signals::Signals;

/// No moment.
pub(crate) const NEVER: u64 = u64::MAX;

/// Where timers stand still in a suspend, the clock is looked at so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct Alarm {
    until: u64,
    timer: Timer,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { until: NEVER, timer: Timer::new()? })
    }

    /// Has it wake those who wait with these signals.
    pub(crate) fn ring(&self, signals: &mut Signals) -> io::Result<()> {
        self.timer.ring(signals)
    }

    /// Another moment, in ns.
    pub(crate) fn set(&mut self, until: u64) {
        if until != self.until {
            self.until = until;
            self.timer.set(until);
        }
    }

    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.until
    }

    /// Whether somebody must look at the clock now and then.
    pub(crate) fn wakes_late(&self) -> bool {
        Timer::STANDS_STILL && self.until != NEVER
    }

    /// How long it may be slept without a look.
    pub(crate) fn pause(&self) -> Duration {
        if self.wakes_late() { LOOK_EVERY } else { Duration::MAX }
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

    fn ring(&self, signals: &mut Signals) -> io::Result<()> {
        signals.listen(&self.0)
    }

    fn set(&self, until: u64) {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        // Zero is no moment for the kernel, too.
        let until = if until == NEVER { 0 } else { until };
        let second = 1_000_000_000;
        let it_value = Timespec {
            tv_sec: i64::try_from(until / second).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(until % second).unwrap_or(0),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let moment = Itimerspec { it_interval, it_value };
        let _always_possible = timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &moment);
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
struct Timer;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Timer {
    const STANDS_STILL: bool = true;

    #[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "elsewhere it can fail")]
    fn ring(&self, _: &mut Signals) -> io::Result<()> {
        Ok(())
    }

    #[allow(clippy::unused_self, reason = "elsewhere there is one")]
    fn set(&self, _: u64) {}
}
