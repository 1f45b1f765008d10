//! Processes: starting this executable again, pids, and reaping.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, WaitOptions, wait};

/// Returns a command for this executable: the same file, even if it was replaced meanwhile.
pub(crate) fn own_executable() -> io::Result<Command> {
    let mut command = Command::new(own_file()?);
    command.arg0("tenure");
    Ok(command)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[allow(clippy::unnecessary_wraps, reason = "it can fail on other systems")]
fn own_file() -> io::Result<PathBuf> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let same = PathBuf::from("/proc/self/exe");
    if same.exists() {
        return Ok(same);
    }
    // Without /proc, use the path that was passed to exec.
    Ok(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()).into())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn own_file() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// Reaps all children that have ended, while there is no command. Such children were started before
/// this program, or are orphans: the first process of a container gets all orphans.
pub(crate) fn reap_all() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Returns the pid of a process that was just started.
pub(crate) fn pid_of(child: &std::process::Child) -> io::Result<Pid> {
    let raw = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    raw.ok_or_else(|| io::Error::other("a child has an invalid pid"))
}
