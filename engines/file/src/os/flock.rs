//! Locking a file without a wait in the kernel: a call that blocks there would not react to a
//! signal or a time limit.

use std::fs::{File, TryLockError};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::Backoff;

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

/// Time limit of the attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// Never hold up an executor.
    Quick,
    /// Until then at most.
    Until(Instant),
}

/// Locks a file exclusively. Returns `false` if another process had it all the time.
pub(crate) fn lock(file: &File, haste: Haste) -> io::Result<bool> {
    let locked = attempt(haste, || done(file.try_lock()));
    locked.transpose().map(|locked| locked.is_some())
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

fn done(tried: Result<(), TryLockError>) -> Option<io::Result<()>> {
    match tried {
        Ok(()) => Some(Ok(())),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => Some(Err(error)),
    }
}

/// Retries until it is done, or the time is over.
pub(crate) fn attempt<T>(haste: Haste, mut once: impl FnMut() -> Option<T>) -> Option<T> {
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
    let Haste::Until(end) = haste else { return None };
    let mut backoff = Backoff::new(PAUSE_MIN, PAUSE_MAX);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::sleep(backoff.pause().min(left));
        if let Some(done) = once() {
            return Some(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_is_not_held_up_where_each_attempt_takes_long() {
        let mut attempts = 0;
        let locked = attempt(Haste::Quick, || {
            attempts += 1;
            if attempts > SPINS_MAX {
                thread::sleep(YIELDS_FOR);
            }
            None::<()>
        });
        assert!(locked.is_none());
        assert!(attempts <= SPINS_MAX + 1, "{attempts}, of which each took as long as all may");
    }
}
