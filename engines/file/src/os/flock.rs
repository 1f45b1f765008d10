//! Locking a file without a wait in the kernel: a call that blocks there would not react to a
//! signal or a time limit.

use std::fs::{File, TryLockError};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::Backoff;

use crate::os::dir::FileId;
use crate::os::{OwnerState, owners_of};

/// Maximum attempts without a yield, and with one. A book is locked for some microseconds; after
/// these its owner is not just busy.
const SPINS_MAX: u32 = 32;
const YIELDS_MAX: u32 = 128;
/// Maximum time of the yields: a busy machine is slow to return from them, and an executor must not
/// be held up longer.
const YIELDS_FOR: Duration = Duration::from_millis(5);
/// Pauses between later attempts grow from the first of these to the second.
const PAUSE_MIN: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// Time for which a verb waits for any process.
const WAITS_FOR_ANY: Duration = Duration::from_secs(1);
/// Time for which a verb waits for a process that runs. A busy machine may suspend a process for
/// seconds while it has a lock. The rest of the promised limit is for the error.
const WAITS_FOR_RUNNING: Duration = Duration::from_secs(8);
/// Pause between two looks at the process that has the lock.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time limit of the attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// Never hold up an executor.
    Quick,
    /// For this long at most.
    Patient(Patience),
}

/// The two time limits of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Later, the verb only waits for a process that is known to run.
    any_until: Instant,
    until: Instant,
}

impl Patience {
    /// The limits of a verb that begins now.
    pub(crate) fn begin() -> Self {
        Self::with(WAITS_FOR_RUNNING)
    }

    /// The same, with another limit for a process that runs.
    pub(crate) fn with(waits_for_running: Duration) -> Self {
        let now = Instant::now();
        Self { any_until: now + WAITS_FOR_ANY, until: now + waits_for_running }
    }

    /// Waits until then, for any process.
    pub(crate) fn until(end: Instant) -> Self {
        Self { any_until: end, until: end }
    }

    /// The same, but until then at most.
    pub(crate) fn at_most_until(self, end: Instant) -> Self {
        Self { any_until: self.any_until.min(end), until: self.until.min(end) }
    }
}

/// Locks a file exclusively. Returns `false` if another process had it all the time.
pub(crate) fn lock(file: &File, haste: Haste) -> io::Result<bool> {
    let once = || try_lock(file).map(|locked| locked.then_some(())).transpose();
    attempt(haste, once, || has_running_owner(file)).transpose().map(|locked| locked.is_some())
}

/// Locks a file exclusively. Returns `false` if another process has it locked now.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns whether all processes that have this file locked are known to run.
pub(crate) fn has_running_owner(file: &File) -> bool {
    let owners = file.metadata().ok().and_then(|file| owners_of(FileId::of(&file)));
    owners.is_some_and(|owners| owners.state == OwnerState::Runs)
}

/// Returns whether no process has this file locked. An unknown state counts as locked.
pub(crate) fn is_free(file: &File) -> bool {
    let free = file.try_lock_shared().is_ok();
    if free {
        let _ = file.unlock(); // the lock ends with this handle at the latest
    }
    free
}

/// Blocks the thread until no process has the file locked. Nothing else ends the wait.
pub(crate) fn wait_until_free(file: &File) {
    while let Err(error) = file.lock_shared() {
        if error.kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
    let _ = file.unlock(); // the lock ends with this handle at the latest
}

/// Retries until it is done, or the time is over. `owner_runs` returns whether a process that is in
/// the way is known to run.
pub(crate) fn attempt<T>(
    haste: Haste,
    mut once: impl FnMut() -> Option<T>,
    owner_runs: impl Fn() -> bool,
) -> Option<T> {
    for _ in 0..SPINS_MAX {
        if let Some(done) = once() {
            return Some(done);
        }
        std::hint::spin_loop();
    }
    let began = Instant::now();
    for _ in 0..YIELDS_MAX {
        if let Some(done) = once() {
            return Some(done);
        }
        if began.elapsed() >= YIELDS_FOR {
            break;
        }
        thread::yield_now();
    }
    let Haste::Patient(Patience { any_until: mut looks_at, until }) = haste else { return None };
    let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    loop {
        let now = Instant::now();
        let is_over = now >= until;
        if is_over || (now >= looks_at && !owner_runs()) {
            // It may have been released since the last attempt.
            return once();
        }
        if now >= looks_at {
            looks_at = now + LOOK_EVERY;
        }
        thread::sleep(backoff.pause().min(until - now));
        if let Some(done) = once() {
            return Some(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn an_executor_is_not_held_up_where_each_attempt_takes_long() {
        let mut attempts = 0;
        let locked = attempt(
            Haste::Quick,
            || {
                attempts += 1;
                if attempts > SPINS_MAX {
                    thread::sleep(YIELDS_FOR);
                }
                None::<()>
            },
            || true,
        );
        assert!(locked.is_none());
        assert!(attempts <= SPINS_MAX + 1, "{attempts}, of which each took as long as all may");
    }

    fn an_hour(any_until: Instant) -> Haste {
        Haste::Patient(Patience { any_until, until: any_until + Duration::from_secs(3600) })
    }

    #[test]
    fn a_lock_is_waited_for_while_its_owner_runs() {
        let looks = Cell::new(0);
        let owner_runs = || {
            looks.set(looks.get() + 1);
            looks.get() < 3
        };
        assert!(attempt(an_hour(Instant::now()), || None::<()>, owner_runs).is_none());
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn a_lock_that_is_free_after_the_last_look_is_taken() {
        let looked = Cell::new(false);
        let owner_runs = || {
            looked.set(true);
            false
        };
        let once = || looked.get().then_some(());
        assert!(attempt(an_hour(Instant::now()), once, owner_runs).is_some());
    }
}
