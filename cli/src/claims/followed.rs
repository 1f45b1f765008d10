//! The process with which a claim ends: the parent of `tenure take`, or that of `--while-pid`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, getpid, getppid};
use serde::{Deserialize, Serialize};

/// Poll interval where the kernel reports no end of another process.
const POLL_EVERY: Duration = Duration::from_millis(500);

/// A process, identified by its pid and its start time: a pid may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Followed {
    pid: i32,
    /// Zero where the start time is unknown.
    born: u64,
}

impl Followed {
    /// Returns the living process with this pid.
    pub(crate) fn find(pid: Pid) -> Option<Self> {
        Some(Self { pid: pid.as_raw_nonzero().get(), born: birth(pid)? })
    }

    /// Returns the process that has started this one. A command substitution, such as
    /// `$(tenure take k | jq .)`, may run in a shell of its own, which ends with it: the claim is
    /// then that of the shell around it.
    pub(crate) fn parent() -> Option<Self> {
        let mut parent = getppid()?;
        while let Some(shell) = shell_around(parent) {
            parent = shell;
        }
        // The parent has ended, and the system's first process has taken its place. In a container
        // the first process may be the shell itself, in the same session.
        if parent.is_init() && session(parent) != session(getpid()) {
            return None;
        }
        Self::find(parent)
    }

    pub(crate) fn pid(self) -> i32 {
        self.pid
    }

    /// Begins to watch the process.
    pub(crate) fn watch(self) -> io::Result<ProcessWatch> {
        // The pidfd comes first: the start time then shows whether it is that of the same process.
        let pidfd = Pid::from_raw(self.pid).map(pidfd).transpose()?.flatten();
        Ok(ProcessWatch { process: self, pidfd })
    }

    fn lives(self) -> bool {
        Pid::from_raw(self.pid).and_then(birth) == Some(self.born)
    }
}

/// A watch on the end of a process.
pub(crate) struct ProcessWatch {
    process: Followed,
    /// Readable once the process has ended. `None` where the kernel has none.
    pidfd: Option<OwnedFd>,
}

impl ProcessWatch {
    pub(crate) fn has_ended(&self) -> bool {
        self.pidfd.as_ref().is_some_and(crate::supervisor::signals::is_readable)
            || !self.process.lives()
    }

    /// The file that becomes readable when the process ends.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// How often to call [`has_ended`](Self::has_ended). `None`: the file reports the end.
    pub(crate) fn poll_every(&self) -> Option<Duration> {
        self.pidfd.is_none().then_some(POLL_EVERY)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn birth(pid: Pid) -> Option<u64> {
    use crate::supervisor::process_tree::{ProcessStat, START_TIME};
    ProcessStat::read(pid)?.number(START_TIME)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn birth(pid: Pid) -> Option<u64> {
    use rustix::io::Errno;
    let lives = rustix::process::test_kill_process(pid);
    matches!(lives, Ok(()) | Err(Errno::PERM)).then_some(0)
}

/// The session of a process.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn session(pid: Pid) -> Option<u64> {
    const SESSION: usize = 3;
    crate::supervisor::process_tree::ProcessStat::read(pid)?.number(SESSION)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn session(_: Pid) -> Option<u64> {
    None
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn pidfd(pid: Pid) -> io::Result<Option<OwnedFd>> {
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, pidfd_open};
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok(Some(pidfd)),
        // It has ended, which its start time shows; or the kernel is older than 5.3, or a filter
        // of system calls refuses this one.
        Err(Errno::SRCH | Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[allow(clippy::unnecessary_wraps, reason = "it can fail on Linux")]
fn pidfd(_: Pid) -> io::Result<Option<OwnedFd>> {
    Ok(None)
}

/// Returns the shell that has started this process for a command substitution. Such a process is a
/// copy of its shell, which has executed no program of its own, and it writes to a pipe that its
/// shell does not write to.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn shell_around(pid: Pid) -> Option<Pid> {
    use crate::supervisor::process_tree::ProcessStat;
    /// The addresses of the program's code, of its stack and of its arguments: the kernel chooses
    /// them anew for each program that is executed.
    const LAYOUT: [usize; 3] = [23, 25, 45];
    const PARENT: usize = 1;
    let own = ProcessStat::read(pid)?;
    let shell = Pid::from_raw(i32::try_from(own.number(PARENT)?).ok()?)?;
    let its = ProcessStat::read(shell)?;
    // Addresses of other users' processes are hidden, and shown as 0 or 1.
    let is_copy = LAYOUT.iter().all(|field| {
        own.number(*field).is_some_and(|address| address > 1 && its.number(*field) == Some(address))
    });
    let link = |pid: Pid, file: &str| std::fs::read_link(format!("/proc/{pid}/{file}")).ok();
    let output = link(pid, "fd/1")?;
    let has_own_pipe = output.to_string_lossy().starts_with("pipe:")
        && link(shell, "fd/1").as_ref() != Some(&output);
    let runs_same = link(pid, "exe")? == link(shell, "exe")?;
    (is_copy && has_own_pipe && runs_same).then_some(shell)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn shell_around(_: Pid) -> Option<Pid> {
    None
}
