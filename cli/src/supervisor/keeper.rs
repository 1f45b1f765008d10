//! A keeper stands between `tenure` and its command. It keeps the lock until every process that
//! the command has started is gone.
//!
//! ```text
//! tenure ── control channel ── keeper ── command ── …
//! ```
//!
//! The keeper holds a duplicate of the session's locked file. If `tenure` dies, the channel closes:
//! the keeper kills the command and its descendants and then ends, which frees the lock. It adopts
//! orphans, so a process cannot escape into another process group or session. The keeper also
//! guards a lease: it kills if `tenure` has not extended the deadline before the lease ends.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, test_kill_process_group,
    wait, waitid,
};
use tenure::engine::{Clock as _, SystemClock};

use super::alarm::{Alarm, NEVER};
use super::control_channel::{ControlChannel, ExitReason, Message, Received};
use super::job::TtouBlocked;
use super::process::{own_executable, pid_of};
use super::process_tree::ProcessTree;
use super::shim;
use super::signals::Signals;
use super::task::{Task, TaskKind};
use crate::failure::{USAGE, say};
use crate::screen::quoted;

/// The first argument that makes this program a keeper.
pub(crate) const ARGUMENT: &str = "--keep";
/// The name in `ps` and `top`. It differs from `tenure`, so that `pkill tenure` spares the keeper.
pub(crate) const NAME: &str = "lock-keeper";

/// First and longest pause between two kill passes; the next pass finds processes that were forked
/// during the last.
const PASS_FIRST: Duration = Duration::from_millis(1);
const PASS_MAX: Duration = Duration::from_millis(100);

/// Shells use file descriptors below this number for themselves.
const LIFELINE_MIN: i32 = 60;
/// The first descriptor after standard input, output and error.
const STDIO_END: i32 = 3;

/// Whether orphans become children of this process. Elsewhere only the process group is known.
pub(crate) const ADOPTS: bool = cfg!(any(target_os = "linux", target_os = "android"));

struct Keeper {
    channel: ControlChannel,
    signals: Signals,
    alarm: Alarm,
    tree: ProcessTree,
    /// The command, which leads its group; `None` if it is not known.
    group: Option<Pid>,
    /// The command was reaped, so its pid may have been reused.
    reaped: bool,
    /// The key, quoted for messages.
    key: String,
    phase: Phase,
    /// The command is never killed; the keeper waits until it ends.
    spares: bool,
    /// The processes that cannot be killed were reported.
    reported: bool,
    /// A file lock is kept as long as this is open; a lease has none.
    lifeline: Option<OwnedFd>,
}

enum Phase {
    /// The command works.
    Watching,
    /// The command was asked to end, and is killed at this time.
    Terminating(Instant),
    /// `tenure` has died, and the command may not be killed.
    Waiting,
    /// The command is being killed, with this pause after each pass.
    Killing(Duration),
}

/// Returns the command that starts a keeper with this end of the channel.
pub(crate) fn command(channel: OwnedFd) -> io::Result<Command> {
    let mut command = own_executable()?;
    command.arg0(NAME).arg(ARGUMENT).stdin(Stdio::from(channel));
    Ok(command)
}

/// Runs `--keep`, with the channel as standard input.
pub(crate) fn main() -> ExitCode {
    match Keeper::begin() {
        Ok(Some(mut keeper)) => {
            keeper.keep();
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("the command can no longer be watched: {error}"));
            ExitCode::from(USAGE)
        }
    }
}

impl Keeper {
    /// Waits for the task and starts its command. Returns `None` if there is no task, or after it
    /// has reported that the command cannot be started.
    fn begin() -> io::Result<Option<Self>> {
        name_and_adopt();
        // A signal to the whole group is for the command and `tenure`; it only wakes this process.
        let mut signals = Signals::install()?;
        let ttou_blocked = TtouBlocked::new();
        let channel = ControlChannel::of_keeper()?;
        let Some((parts, files)) = channel.take_over()? else { return Ok(None) };
        let mut files = files.into_iter();
        let (stdin, lifeline) = (files.next(), files.next());
        let task = Task::unpack(parts).ok_or(io::ErrorKind::InvalidData)?;
        let mut alarm = Alarm::new()?;
        alarm.set(task.until);
        signals.wake_on(&channel)?;
        alarm.wake(&mut signals)?;
        let (tree, group) = match task.kind {
            TaskKind::Adopt(group) => {
                (ProcessTree::Marked { group, ticket: task.ticket().to_owned() }, group)
            }
            TaskKind::Run { .. } => {
                let group = start(&task, stdin, &channel, lifeline.as_ref(), &ttou_blocked)?;
                if group.is_none() {
                    return Ok(None);
                }
                (ProcessTree::Own, group)
            }
        };
        Ok(Some(Self {
            channel,
            signals,
            alarm,
            tree,
            group,
            reaped: false,
            key: quoted(task.key()),
            phase: Phase::Watching,
            spares: task.spares,
            reported: false,
            lifeline,
        }))
    }

    /// Returns when the command has ended by itself, or when all its processes are gone.
    fn keep(&mut self) {
        loop {
            if self.read_messages() {
                return;
            }
            let ended = self.reap();
            match (&self.phase, ended) {
                (Phase::Watching, Some(reason)) => {
                    self.channel.send(Message::Ended(reason));
                    return;
                }
                (Phase::Watching, None) => {}
                _ if self.all_are_gone() => {
                    self.channel.send(Message::Gone);
                    return;
                }
                _ => {}
            }
            let pause = self.act();
            let _ = self.signals.take(); // signals only wake this process
            if self.signals.wait(pause).is_err() {
                self.phase = Phase::Killing(PASS_FIRST);
            }
        }
    }

    /// Handles the messages of `tenure`. Returns whether the command is to be left alone.
    fn read_messages(&mut self) -> bool {
        loop {
            match self.channel.receive() {
                Received::Message(Message::Until(moment)) => self.alarm.set(moment),
                Received::Message(Message::Stop(grace)) => self.terminate(grace),
                Received::Message(Message::LetGo) => return true,
                Received::Message(_) => {}
                Received::Nothing => return false,
                Received::Closed => {
                    // A closed channel is always readable. The alarm is obsolete as well.
                    self.signals.wake_on_nothing();
                    if self.spares {
                        self.phase = Phase::Waiting;
                    } else {
                        self.begin_killing();
                    }
                    return false;
                }
            }
        }
    }

    /// Reaps all children that have ended. Returns how the command ended, and reports a stop.
    fn reap(&mut self) -> Option<ExitReason> {
        let mut ended = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if Some(pid) != self.group {
                continue;
            }
            if let Some(signal) = status.stopping_signal().and_then(Signal::from_named_raw) {
                self.channel.send(Message::Paused(signal));
            }
            ended = ended.or(ExitReason::of(status));
        }
        self.reaped |= ended.is_some();
        ended
    }

    fn all_are_gone(&self) -> bool {
        match &self.tree {
            // This process adopts orphans: without a child it has no descendant, either.
            ProcessTree::Own => has_no_child() && (ADOPTS || !self.has_group()),
            ProcessTree::Marked { .. } => {
                self.tree.members().is_ok_and(|members| members.is_empty())
            }
        }
    }

    /// Does the work that is due, and returns when to look again.
    fn act(&mut self) -> Option<Duration> {
        if self.alarm.is_due(SystemClock.now().boot_ns) {
            self.alarm.set(NEVER);
            if matches!(self.phase, Phase::Watching) {
                self.channel.send(Message::Late);
            }
            self.begin_killing();
        }
        if let Phase::Terminating(kill_at) = self.phase {
            let left = kill_at.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Some(left.min(self.alarm.pause()));
            }
            self.begin_killing();
        }
        if let Phase::Killing(pause) = self.phase {
            self.kill();
            self.phase = Phase::Killing((pause * 2).min(PASS_MAX));
            return Some(pause);
        }
        match (&self.phase, &self.tree) {
            // The processes are not all children: no signal reports their end.
            (Phase::Waiting, ProcessTree::Marked { .. }) => Some(PASS_MAX),
            _ => self.alarm.must_be_polled().then(|| self.alarm.pause()),
        }
    }

    fn terminate(&mut self, grace: Duration) {
        if !matches!(self.phase, Phase::Watching) {
            return;
        }
        let Some(kill_at) = Instant::now().checked_add(grace).filter(|_| !grace.is_zero()) else {
            return self.begin_killing();
        };
        self.phase = Phase::Terminating(kill_at);
        // CONT: a stopped process handles TERM only after it continues.
        for signal in [Signal::TERM, Signal::CONT] {
            // First: the children of a process that ends may not be found later.
            let members = self.tree.members().unwrap_or_default();
            self.signal_group(signal);
            for member in members {
                if !self.group.is_some_and(|group| member.is_in(group)) {
                    // A process that stays is killed later, and reported if that fails.
                    let _ = member.signal(signal);
                }
            }
        }
    }

    fn begin_killing(&mut self) {
        if !matches!(self.phase, Phase::Killing(_)) {
            self.phase = Phase::Killing(PASS_FIRST);
        }
    }

    fn kill(&mut self) {
        // First: the children of a process that ends may not be found later.
        let members = self.tree.members();
        // One call kills the whole group, so that none of its processes can fork meanwhile.
        self.signal_group(Signal::KILL);
        let members = match members {
            Ok(members) => members,
            Err(error) => {
                let why = format!("without /proc it cannot be found ({error})");
                return self.report("a process that has left the group of the command", &why);
            }
        };
        let mut spared = Vec::new();
        for member in members {
            if member.signal(Signal::KILL).is_err() {
                spared.push(member.describe());
            }
        }
        if !spared.is_empty() {
            self.report(&spared.join(", "), "it may not be killed");
        }
    }

    /// Reports once the processes that are left, and the consequence for the lock.
    fn report(&mut self, processes: &str, why: &str) {
        if std::mem::replace(&mut self.reported, true) {
            return;
        }
        let key = &self.key;
        say(&match self.lifeline {
            Some(_) => format!("{key} stays locked until {processes} has ended: {why}"),
            None => {
                format!("{processes} works on after the lock of {key} has a new holder: {why}")
            }
        });
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group.filter(|_| !self.reaped || !ADOPTS) {
            let _ = kill_process_group(group, signal); // the group may be empty
        }
    }

    fn has_group(&self) -> bool {
        self.group.is_some_and(|group| test_kill_process_group(group).is_ok())
    }
}

/// Starts the command. Returns `None` after it has reported that the command cannot be started.
fn start(
    task: &Task,
    stdin: Option<OwnedFd>,
    channel: &ControlChannel,
    lifeline: Option<&OwnedFd>,
    ttou_blocked: &TtouBlocked,
) -> io::Result<Option<Pid>> {
    let stdin = stdin.ok_or(io::ErrorKind::InvalidData)?;
    let _inherited = lifeline.map(inheritable).transpose()?;
    match ttou_blocked.suspended(|| task.spawn(stdin)) {
        Ok(child) => {
            let group = pid_of(&child)?;
            channel.send(Message::Started(group));
            Ok(Some(group))
        }
        Err(error) => {
            let (code, sentence) = shim::explain(task.program(), &error);
            say(&sentence);
            channel.send(Message::Ended(ExitReason::Exited(code)));
            Ok(None)
        }
    }
}

/// Duplicates the lifeline for the command to inherit. If `tenure` and its keeper are killed at
/// once, a file lock is then kept until the command has ended, as with `flock`.
pub(crate) fn inheritable(lifeline: &OwnedFd) -> io::Result<OwnedFd> {
    let file = match fcntl_dupfd_cloexec(lifeline, LIFELINE_MIN) {
        // The limit on open files is below `LIFELINE_MIN`.
        Err(Errno::INVAL) => fcntl_dupfd_cloexec(lifeline, STDIO_END)?,
        file => file?,
    };
    fcntl_setfd(&file, FdFlags::empty())?;
    Ok(file)
}

/// Whether this process has no child, not even one that has ended and was not reaped.
pub(crate) fn has_no_child() -> bool {
    let any = WaitIdOptions::NOHANG | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, any), Err(Errno::CHILD))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn name_and_adopt() {
    let name = std::ffi::CString::new(NAME).expect("the name has no NUL");
    let _ = rustix::thread::set_name(&name); // without it, `ps -C` shows the executable's name
    // Without it, orphans of the command are not found; the kernel has it since 3.4.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn name_and_adopt() {}
