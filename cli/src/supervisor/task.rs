//! A keeper's task: a command to start, or a running command to adopt.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use rustix::io::Errno;
use rustix::process::Pid;

use super::{nested, shim};

/// Environment variables of the command.
pub(crate) const KEY: &str = "TENURE_KEY";
pub(crate) const TOKEN: &str = "TENURE_TOKEN";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) kind: TaskKind,
    /// The lock is valid until this time, in ns of the clock that includes suspend.
    pub(crate) until: u64,
    /// The command is never killed, even if its lock is lost.
    pub(crate) spares: bool,
    /// Environment variables for the command.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// A command with its arguments; it may get the terminal.
    Run { command: Vec<OsString>, with_terminal: bool },
    /// A command whose keeper has died, and the group that it leads, if that is known.
    Adopt(Option<Pid>),
}

impl Task {
    /// Encodes the task for the control channel.
    pub(crate) fn pack(&self) -> Vec<Vec<u8>> {
        let group: Option<OsString>;
        let (kind, arguments) = match &self.kind {
            TaskKind::Run { command, with_terminal: true } => ("lend", command.as_slice()),
            TaskKind::Run { command, with_terminal: false } => ("run", command.as_slice()),
            TaskKind::Adopt(leader) => {
                group = leader.map(|leader| leader.to_string().into());
                ("adopt", group.as_slice())
            }
        };
        let numbers = [self.until, self.spares.into(), self.variables.len() as u64];
        let mut parts = vec![kind.into()];
        parts.extend(numbers.map(|number| number.to_string().into_bytes()));
        for (name, value) in &self.variables {
            parts.extend([name.as_bytes().to_vec(), value.as_bytes().to_vec()]);
        }
        parts.extend(arguments.iter().map(|argument| argument.as_bytes().to_vec()));
        parts
    }

    /// Decodes a task; `None` if the parts are not one.
    pub(crate) fn unpack(parts: Vec<Vec<u8>>) -> Option<Self> {
        let mut parts = parts.into_iter();
        let kind = parts.next()?;
        let mut number = || String::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
        let (until, spares, count) = (number()?, number()? > 0, number()?);
        let mut variables = Vec::new();
        for _ in 0..count {
            let name = OsString::from_vec(parts.next()?);
            variables.push((name, OsString::from_vec(parts.next()?)));
        }
        let command: Vec<OsString> = parts.map(OsString::from_vec).collect();
        let kind = match (kind.as_slice(), command.first()) {
            (b"adopt", None) => TaskKind::Adopt(None),
            (b"adopt", Some(leader)) => {
                TaskKind::Adopt(Some(leader.to_str()?.parse().ok().and_then(Pid::from_raw)?))
            }
            (b"run", Some(_)) => TaskKind::Run { command, with_terminal: false },
            (b"lend", Some(_)) => TaskKind::Run { command, with_terminal: true },
            _ => return None,
        };
        Some(Self { kind, until, spares, variables })
    }

    /// The key of the lock.
    pub(crate) fn key(&self) -> &str {
        self.variable(KEY)
    }

    /// The ticket of the lock, which the environment of the command's processes names.
    pub(crate) fn ticket(&self) -> &str {
        nested::innermost(self.variable(nested::VARIABLE))
    }

    fn variable(&self, name: &str) -> &str {
        let variable = self.variables.iter().find(|(of, _)| of == name);
        variable.and_then(|(_, value)| value.to_str()).unwrap_or_default()
    }

    /// Starts the command as the leader of its own group.
    pub(crate) fn spawn(&self, stdin: impl AsFd) -> io::Result<Child> {
        let TaskKind::Run { command, with_terminal } = &self.kind else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let start = |mut command: Command| {
            let stdin = stdin.as_fd().try_clone_to_owned()?;
            let variables = self.variables.iter().map(|(name, value)| (name, value));
            command.envs(variables).stdin(stdin).process_group(0).spawn()
        };
        if *with_terminal {
            return start(shim::command(shim::WITH_TERMINAL, command)?);
        }
        let mut direct = Command::new(&command[0]);
        direct.args(&command[1..]);
        match start(direct) {
            // A script without `#!`: the C library's exec, which the shim uses, runs it in a shell.
            Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
                start(shim::command(shim::WITHOUT_TERMINAL, command)?)
            }
            outcome => outcome,
        }
    }

    /// The program of the command.
    pub(crate) fn program(&self) -> &OsStr {
        match &self.kind {
            TaskKind::Run { command, .. } => &command[0],
            TaskKind::Adopt(_) => OsStr::new(""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_arrives_as_it_was_packed() {
        let held = (nested::VARIABLE.into(), "1:7:61 2:8:62".into());
        let variables = vec![(KEY.into(), "a\n b".into()), held];
        let command = vec!["sh".into(), OsString::from_vec(vec![0xff, b' ']), OsString::new()];
        for kind in [
            TaskKind::Run { command: command.clone(), with_terminal: true },
            TaskKind::Run { command, with_terminal: false },
            TaskKind::Adopt(Pid::from_raw(7)),
            TaskKind::Adopt(None),
        ] {
            let task = Task { kind, until: u64::MAX, spares: true, variables: variables.clone() };
            assert_eq!(Task::unpack(task.pack()), Some(task.clone()));
            assert_eq!(task.key(), "a\n b");
            assert_eq!(task.ticket(), "2");
        }
        assert_eq!(
            Task::unpack(vec![b"run".to_vec(), b"0".to_vec(), b"0".to_vec(), b"0".to_vec()]),
            None
        );
    }
}
