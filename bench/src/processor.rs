//! Processor time: what a process has used of all cores. It is the same whether threads wake up quickly or slowly.

use std::fs;
use std::time::Duration;

/// What this process has used.
pub(crate) fn own() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// What the threads of another process have used, which Linux counts in nanoseconds.
pub(crate) fn of(pid: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Duration::ZERO };
    let used = |thread: fs::DirEntry| -> Option<u64> {
        let counts = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        counts.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(threads.flatten().filter_map(used).sum())
}
