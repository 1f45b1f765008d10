//! Processes as the system knows them: this program started once more, the number of one, the burial of the dead.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, WaitOptions, wait};

/// This program, to be started again: the same file, even if there is a newer one in its place.
pub(crate) fn myself() -> io::Result<Command> {
    let mut command = Command::new(own_file()?);
    command.arg0("tenure");
    Ok(command)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
fn own_file() -> io::Result<PathBuf> {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let same = PathBuf::from("/proc/self/exe");
    if same.exists() {
        return Ok(same);
    }
    // Without /proc, it is what the kernel was asked to run.
    Ok(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()).into())
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn own_file() -> io::Result<PathBuf> {
    std::env::current_exe()
}

/// While there is no command, whoever is a child was started before this program, or lost its parent: the first
/// process of a container gets all of those.
pub(crate) fn bury_the_dead() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// The number of a process that was just started.
pub(crate) fn pid_of(child: &std::process::Child) -> io::Result<Pid> {
    let raw = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    raw.ok_or_else(|| io::Error::other("a process has a number that none can have"))
}
