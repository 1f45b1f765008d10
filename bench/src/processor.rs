//! The processor time of a process on all cores, which does not depend on the wake-up of threads.

use std::fs;
use std::time::Duration;

/// The processor time of this process.
pub(crate) fn own() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// The processor time of another process, the sum over its threads. Linux counts nanoseconds.
pub(crate) fn of(pid: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Duration::ZERO };
    let used = |thread: fs::DirEntry| -> Option<u64> {
        let counts = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        counts.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(threads.flatten().filter_map(used).sum())
}
