//! The child is the command that runs under a lock, with everything it has started in its group.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, WaitOptions, getpid, kill_process_group,
    test_kill_process_group, waitid, waitpgid, waitpid,
};

use crate::failure::SIGNALLED;
use crate::shim;

/// What became of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It has ended, as a shell would say it. It still has to be [buried](Child::bury).
    Ended(u8),
    /// It has stopped, and can be continued.
    Stopped(Signal),
}

/// A process that leads its own group. Its number is nobody else's until it is buried.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
}

impl Child {
    /// Starts a command as the leader of its own process group.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, &str)],
        with_terminal: bool,
    ) -> io::Result<Self> {
        let terminal = if with_terminal { shim::WITH_TERMINAL } else { shim::WITHOUT_TERMINAL };
        let child = myself()?
            .arg(shim::WORD)
            .arg(getpid().to_string())
            .arg(terminal)
            .args(command)
            .envs(variables.iter().copied())
            .process_group(0)
            .spawn()?;
        Ok(Self { pid: pid_of(&child)? })
    }

    /// The number of its group, which is its own.
    pub(crate) fn group(&self) -> Pid {
        self.pid
    }

    /// Tells all of the group.
    pub(crate) fn signal(&self, signal: Signal) {
        let _all_gone = kill_process_group(self.pid, signal);
    }

    /// Whether it has ended, or has stopped since the last call.
    pub(crate) fn news(&self) -> io::Result<Option<News>> {
        let at_once = WaitIdOptions::NOHANG;
        let ended = at_once | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        if let Some(status) = waitid(WaitId::Pid(self.pid), ended)? {
            return Ok(Some(News::Ended(code(&status))));
        }
        let stopped = match waitid(WaitId::Pid(self.pid), at_once | WaitIdOptions::STOPPED) {
            // It has ended since the first question: its end rings, and the next call says so.
            Err(Errno::CHILD) => None,
            stopped => stopped?,
        };
        let signal = stopped.and_then(|status| status.stopping_signal());
        Ok(signal.and_then(Signal::from_named_raw).map(News::Stopped))
    }

    /// The child has ended: the system may forget it, and its number.
    pub(crate) fn bury(&self) {
        let _buried = waitpid(Some(self.pid), WaitOptions::empty());
    }

    /// Whether anything of the group is left, once the child itself is buried.
    pub(crate) fn has_left_somebody(&self) -> bool {
        // Those whose own parents have died are this process's to bury.
        while let Ok(Some(_)) = waitpgid(self.pid, WaitOptions::NOHANG) {}
        test_kill_process_group(self.pid).is_ok()
    }
}

/// This program, to be started again: the same file, even if there is a newer one in its place.
pub(crate) fn myself() -> io::Result<Command> {
    let mut command = if cfg!(any(target_os = "linux", target_os = "android")) {
        Command::new("/proc/self/exe")
    } else {
        Command::new(std::env::current_exe()?)
    };
    command.arg0("tenure");
    Ok(command)
}

/// The number of a process that was just started.
pub(crate) fn pid_of(child: &std::process::Child) -> io::Result<Pid> {
    let raw = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    raw.ok_or_else(|| io::Error::other("a process has a number that none can have"))
}

fn code(status: &WaitIdStatus) -> u8 {
    let exited = status.exit_status();
    let raw = exited.or_else(|| Some(i32::from(SIGNALLED) + status.terminating_signal()?));
    raw.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(SIGNALLED)
}
