//! A task is what a keeper is given: a command to run, or one to watch over that runs already.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use rustix::io::Errno;
use rustix::process::Pid;

use crate::shim;

/// The variables by which the processes of a command are known.
pub(crate) const KEY: &str = "TENURE_KEY";
pub(crate) const TOKEN: &str = "TENURE_TOKEN";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) what: What,
    /// Until when the lock can be relied on, in ns of the clock that goes on in a suspend.
    pub(crate) until: u64,
    /// The command is never killed, whatever becomes of its lock.
    pub(crate) spares: bool,
    /// What the command finds in its environment.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A command and its own words, which may be given the terminal.
    Run { words: Vec<OsString>, with_terminal: bool },
    /// A command whose keeper has died, and the group that it leads, if that is known.
    Adopt(Option<Pid>),
}

impl Task {
    /// As parts for a leash.
    pub(crate) fn pack(&self) -> Vec<Vec<u8>> {
        let group: Option<OsString>;
        let (what, words) = match &self.what {
            What::Run { words, with_terminal: true } => ("lend", words.as_slice()),
            What::Run { words, with_terminal: false } => ("run", words.as_slice()),
            What::Adopt(leader) => {
                group = leader.map(|leader| leader.to_string().into());
                ("adopt", group.as_slice())
            }
        };
        let numbers = [self.until, self.spares.into(), self.variables.len() as u64];
        let mut parts = vec![what.into()];
        parts.extend(numbers.map(|number| number.to_string().into_bytes()));
        for (name, value) in &self.variables {
            parts.extend([name.as_bytes().to_vec(), value.as_bytes().to_vec()]);
        }
        parts.extend(words.iter().map(|word| word.as_bytes().to_vec()));
        parts
    }

    /// `None` if these parts are no task.
    pub(crate) fn unpack(parts: Vec<Vec<u8>>) -> Option<Self> {
        let mut parts = parts.into_iter();
        let what = parts.next()?;
        let mut number = || String::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
        let (until, spares, count) = (number()?, number()? > 0, number()?);
        let mut variables = Vec::new();
        for _ in 0..count {
            let name = OsString::from_vec(parts.next()?);
            variables.push((name, OsString::from_vec(parts.next()?)));
        }
        let words: Vec<OsString> = parts.map(OsString::from_vec).collect();
        let what = match (what.as_slice(), words.first()) {
            (b"adopt", None) => What::Adopt(None),
            (b"adopt", Some(leader)) => {
                What::Adopt(Some(leader.to_str()?.parse().ok().and_then(Pid::from_raw)?))
            }
            (b"run", Some(_)) => What::Run { words, with_terminal: false },
            (b"lend", Some(_)) => What::Run { words, with_terminal: true },
            _ => return None,
        };
        Some(Self { what, until, spares, variables })
    }

    /// What is locked meanwhile.
    pub(crate) fn key(&self) -> &str {
        let key = self.variables.iter().find(|(name, _)| name == KEY);
        key.and_then(|(_, value)| value.to_str()).unwrap_or_default()
    }

    /// What stands in the environment of the command, and in that of no other.
    pub(crate) fn marks(&self) -> Vec<Vec<u8>> {
        let own = self.variables.iter().filter(|(name, _)| name == KEY || name == TOKEN);
        own.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat()).collect()
    }

    /// Starts the command as the leader of its own group.
    pub(crate) fn spawn(&self, stdin: impl AsFd) -> io::Result<Child> {
        let What::Run { words, with_terminal } = &self.what else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let start = |mut command: Command| {
            let stdin = stdin.as_fd().try_clone_to_owned()?;
            let variables = self.variables.iter().map(|(name, value)| (name, value));
            command.envs(variables).stdin(stdin).process_group(0).spawn()
        };
        if *with_terminal {
            return start(shim::command(shim::WITH_TERMINAL, words)?);
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        match start(command) {
            // A script that does not say what runs it. A shell does, if it is executed as the C library does it.
            Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
                start(shim::command(shim::WITHOUT_TERMINAL, words)?)
            }
            outcome => outcome,
        }
    }

    /// The command itself.
    pub(crate) fn program(&self) -> &OsStr {
        match &self.what {
            What::Run { words, .. } => &words[0],
            What::Adopt(_) => OsStr::new(""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_arrives_as_it_was_packed() {
        let variables = vec![(KEY.into(), "a\n b".into()), (TOKEN.into(), "7".into())];
        let words = vec!["sh".into(), OsString::from_vec(vec![0xff, b' ']), OsString::new()];
        for what in [
            What::Run { words: words.clone(), with_terminal: true },
            What::Run { words, with_terminal: false },
            What::Adopt(Pid::from_raw(7)),
            What::Adopt(None),
        ] {
            let task = Task { what, until: u64::MAX, spares: true, variables: variables.clone() };
            assert_eq!(Task::unpack(task.pack()), Some(task.clone()));
            assert_eq!(task.key(), "a\n b");
            assert_eq!(task.marks(), [b"TENURE_KEY=a\n b".to_vec(), b"TENURE_TOKEN=7".to_vec()]);
        }
        assert_eq!(
            Task::unpack(vec![b"run".to_vec(), b"0".to_vec(), b"0".to_vec(), b"0".to_vec()]),
            None
        );
    }
}
