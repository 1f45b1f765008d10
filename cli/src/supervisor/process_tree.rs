//! The process tree of a command: the command and all its descendants, in any group or session.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::nested;

/// A process of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pid: Pid,
    parent: i32,
    group: i32,
    /// The start time; together with the pid it identifies the process.
    born: u64,
    name: String,
}

/// A rule for the processes that belong to a command.
pub(crate) enum ProcessTree {
    /// All descendants of this process, which has no others.
    Own,
    /// The processes in this group or with this ticket in their environment, and their
    /// descendants.
    Marked { group: Option<Pid>, ticket: String },
}

impl ProcessTree {
    /// Returns the processes that belong to the tree now. One that is forked meanwhile may be
    /// missing.
    pub(crate) fn members(&self) -> io::Result<Vec<Process>> {
        let own = getpid();
        let mut others = processes()?;
        others.retain(|process| process.pid != own);
        let is_root = |process: &Process| match self {
            Self::Own => process.parent == raw(own),
            Self::Marked { group, ticket } => {
                group.is_some_and(|group| process.is_in(group)) || process.is_under(ticket)
            }
        };
        let (mut members, mut others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_root);
        let mut parents: HashSet<i32> = members.iter().map(|member| raw(member.pid)).collect();
        loop {
            let descends = |process: &Process| parents.contains(&process.parent);
            let (children, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(descends);
            if children.is_empty() {
                return Ok(members);
            }
            parents.extend(children.iter().map(|child| raw(child.pid)));
            members.extend(children);
            others = rest;
        }
    }
}

/// Returns the command of a keeper that has died, if it has become this process's child: the
/// oldest group leader among the children.
pub(crate) fn first_adopted(ticket: String) -> Option<Pid> {
    let members = ProcessTree::Marked { group: None, ticket }.members().ok()?;
    let own = raw(getpid());
    let leads = |member: &&Process| member.parent == own && member.is_in(member.pid);
    members.iter().filter(leads).min_by_key(|member| member.born).map(|member| member.pid)
}

impl Process {
    /// Signals this process; does nothing if it has ended, even if its pid was reused.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Errno> {
        match self.try_signal(signal) {
            Err(Errno::SRCH) => Ok(()),
            outcome => outcome,
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn try_signal(&self, signal: Signal) -> Result<(), Errno> {
        use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
        let pidfd = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(pidfd) => Some(pidfd),
            // An old kernel, or a filter of system calls.
            Err(Errno::NOSYS | Errno::PERM) => None,
            Err(error) => return Err(error),
        };
        match pidfd {
            _ if process(self.pid).is_none_or(|now| now.born != self.born) => Err(Errno::SRCH),
            Some(pidfd) => pidfd_send_signal(pidfd, signal),
            None => kill_process(self.pid, signal),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn try_signal(&self, signal: Signal) -> Result<(), Errno> {
        kill_process(self.pid, signal)
    }

    /// Whether it belongs to this process group.
    pub(crate) fn is_in(&self, group: Pid) -> bool {
        self.group == raw(group)
    }

    /// Describes the process for a message: pid, name and user.
    pub(crate) fn describe(&self) -> String {
        let user = fs::metadata(format!("/proc/{}", self.pid)).map(|entry| entry.uid());
        let user = user.map_or(String::new(), |user| format!(" of user {user}"));
        format!("process {} ({}){user}", self.pid, self.name)
    }

    fn is_under(&self, ticket: &str) -> bool {
        let Ok(environment) = fs::read(format!("/proc/{}/environ", self.pid)) else { return false };
        environment.split(|byte| *byte == 0).any(|entry| nested::names(entry, ticket))
    }
}

/// Returns every process that this one can see.
fn processes() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        processes.extend(pid.and_then(process));
    }
    if processes.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(processes)
}

fn process(pid: Pid) -> Option<Process> {
    let stat = ProcessStat::read(pid)?;
    Some(Process {
        pid,
        parent: i32::try_from(stat.number(1)?).ok()?,
        group: i32::try_from(stat.number(2)?).ok()?,
        born: stat.number(START_TIME)?,
        name: stat.name,
    })
}

/// The field of [`ProcessStat`] with the start time. With the pid it identifies a process.
pub(crate) const START_TIME: usize = 19;

/// The status of a living process, as Linux reports it.
pub(crate) struct ProcessStat {
    name: String,
    /// The fields after the name; the first is the state.
    fields: Vec<String>,
}

impl ProcessStat {
    /// Returns the status of a process. `None` if it has ended.
    pub(crate) fn read(pid: Pid) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name may contain any character, also brackets.
        let (head, tail) = stat.rsplit_once(") ")?;
        let (_, name) = head.split_once(" (")?;
        let fields = tail.split(' ').map(str::to_owned).collect();
        let stat = Self { name: name.to_owned(), fields };
        // A process whose first thread has ended looks dead, and works on if it has other threads.
        let is_dead = stat.fields.first()?.starts_with(['Z', 'X']) && stat.number(17)? < 2;
        (!is_dead).then_some(stat)
    }

    /// Returns a field that is a number.
    pub(crate) fn number(&self, field: usize) -> Option<u64> {
        self.fields.get(field)?.parse().ok()
    }
}

fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}
