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

/// The processor time of several processes.
pub(crate) fn of_all(pids: &[u32]) -> Duration {
    pids.iter().map(|pid| of(*pid)).sum()
}

/// These processes and their children. PostgreSQL has a process for each connection.
pub(crate) fn with_children(parents: &[u32]) -> Vec<u32> {
    let Ok(all) = fs::read_dir("/proc") else { return parents.to_vec() };
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let children = pids.filter(|pid| parent_of(*pid).is_some_and(|of| parents.contains(&of)));
    parents.iter().copied().chain(children).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses. The state and the parent follow it.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
