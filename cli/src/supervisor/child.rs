//! The child: the command that runs under a lock, with its keeper between it and this process.

use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, wait,
    waitid, waitpid,
};

use super::control_channel::{ControlChannel, ExitReason, Message, Received};
use super::keeper::{self, ADOPTS, has_no_child};
use super::process::pid_of;
use super::process_tree::{ProcessTree, first_adopted};
use super::task::{Task, TaskKind};

/// Maximum number of keepers that are started for one command before the command has begun.
const KEEPERS_MAX: u32 = 5;

/// A change of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildEvent {
    /// The child has ended by itself.
    Ended(ExitReason),
    /// This signal stopped the child; it can be continued.
    Paused(Signal),
    /// The keeper kills the child, because this process did not extend the deadline.
    Late,
    /// All processes of the child are gone.
    Gone,
    /// The keeper has died.
    Orphaned,
}

/// A keeper that ends by itself. Drop waits for its end and reaps it: in many containers no
/// process 1 reaps orphans.
pub(crate) struct ReapOnDrop(Pid);

impl Drop for ReapOnDrop {
    fn drop(&mut self) {
        let _ = waitpid(Some(self.0), WaitOptions::empty()); // it may have been reaped already
    }
}

/// A keeper without a task, started before the lock is requested: its start takes a few
/// milliseconds, in which the lock need not be held. Drop ends it.
pub(crate) struct SpareKeeper {
    channel: ControlChannel,
    process: KillOnDrop,
}

/// The pid of a keeper that has no task.
struct KillOnDrop(Pid);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // If it was already reaped, its pid may have been reused: do not signal it.
        if let Ok(None) = waitpid(Some(self.0), WaitOptions::NOHANG) {
            let _ = kill_process(self.0, Signal::KILL); // it may have just ended
            drop(ReapOnDrop(self.0));
        }
    }
}

impl SpareKeeper {
    pub(crate) fn start() -> io::Result<Self> {
        let (channel, keepers) = ControlChannel::new()?;
        let keeper = keeper::command(keepers)?.process_group(0).spawn()?;
        Ok(Self { channel, process: KillOnDrop(pid_of(&keeper)?) })
    }

    /// Hands the task over. If this fails, the keeper has not started the command.
    fn begin(self, task: &Task, lifeline: Option<&OwnedFd>) -> io::Result<(ControlChannel, Pid)> {
        resume(self.process.0);
        let stdin = io::stdin();
        let files: Vec<BorrowedFd<'_>> =
            [Some(stdin.as_fd()), lifeline.map(AsFd::as_fd)].into_iter().flatten().collect();
        let parts = task.pack();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        self.channel.hand_over(&parts, &files)?;
        Ok((self.channel, ManuallyDrop::new(self.process).0))
    }
}

/// A command and the keeper that has started it.
pub(crate) struct Child {
    task: Task,
    lifeline: Option<OwnedFd>,
    channel: ControlChannel,
    keeper: Pid,
    /// The pid of the command, which is that of its group, once it runs.
    leader: Option<Pid>,
    has_ended: bool,
    /// Signals that came before the command ran.
    early: Vec<Signal>,
    /// Number of keepers that died before they had started the command.
    restarts: u32,
    /// The keeper has died and has no successor.
    unkept: bool,
}

impl Child {
    /// Has a keeper start the command. The keeper holds the lifeline until all processes of the
    /// command are gone.
    pub(crate) fn start(
        spare: Option<SpareKeeper>,
        task: Task,
        lifeline: Option<OwnedFd>,
    ) -> io::Result<Self> {
        adopt_orphans();
        // A spare keeper may have been killed while the lock was waited for.
        let begun = spare.and_then(|spare| spare.begin(&task, lifeline.as_ref()).ok());
        let (channel, keeper) = match begun {
            Some(begun) => begun,
            None => begin(&task, lifeline.as_ref())?,
        };
        Ok(Self {
            task,
            lifeline,
            channel,
            keeper,
            leader: None,
            has_ended: false,
            early: Vec::new(),
            restarts: 0,
            unkept: false,
        })
    }

    /// After the keeper has died: whether it had not started the command. The command would have
    /// become this process's child. Where orphans are not adopted, that is unknown.
    pub(crate) fn has_never_run(&self) -> bool {
        self.reap_keeper();
        ADOPTS && self.leader.is_none() && has_no_child()
    }

    /// Has another keeper start a command that has never run, at most [`KEEPERS_MAX`] times.
    pub(crate) fn restart(&mut self, until: u64) -> io::Result<()> {
        if self.restarts == KEEPERS_MAX {
            let why = format!("{KEEPERS_MAX} keepers were killed before they had started it");
            return Err(io::Error::other(why));
        }
        self.restarts += 1;
        self.task.until = until;
        (self.channel, self.keeper) = begin(&self.task, self.lifeline.as_ref())?;
        Ok(())
    }

    /// The pid of the command, if it has run.
    pub(crate) fn leader(&self) -> Option<Pid> {
        self.leader
    }

    /// The process group of the command, while it runs.
    pub(crate) fn group(&self) -> Option<Pid> {
        self.leader.filter(|_| !self.has_ended)
    }

    /// Signals the group, or keeps the signal until the command runs.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.leader.is_none() {
            self.early.push(signal);
            resume(self.keeper);
        }
        if let Some(group) = self.group() {
            let _ = kill_process_group(group, signal); // the group may be empty
        }
    }

    /// Returns the next event, if there is one; does not wait.
    pub(crate) fn event(&mut self) -> Option<ChildEvent> {
        loop {
            let message = match self.channel.receive() {
                Received::Message(message) => message,
                Received::Nothing => return self.event_of_orphan(),
                Received::Closed => return Some(ChildEvent::Orphaned),
            };
            return Some(match message {
                Message::Started(group) => {
                    self.leader = Some(group);
                    for signal in std::mem::take(&mut self.early) {
                        self.signal(signal);
                    }
                    continue;
                }
                Message::Ended(reason) => {
                    self.has_ended = true;
                    ChildEvent::Ended(reason)
                }
                Message::Paused(signal) => ChildEvent::Paused(signal),
                Message::Late => ChildEvent::Late,
                Message::Gone => ChildEvent::Gone,
                Message::Until(_) | Message::Stop(_) | Message::LetGo => continue,
            });
        }
    }

    /// Sends the keeper the deadline until which the lock is valid.
    pub(crate) fn extend(&mut self, until: u64) {
        if self.task.until != until {
            self.task.until = until;
            self.channel.send(Message::Until(until));
        }
    }

    /// Has the keeper end all processes of the command: TERM, and KILL after `grace`.
    /// [`ChildEvent::Gone`] reports the end.
    pub(crate) fn stop(&self, grace: Duration) {
        resume(self.keeper);
        self.channel.send(Message::Stop(grace));
    }

    /// Starts a successor for a keeper that has died. Returns whether the command still runs, as a
    /// child of this process; otherwise the caller can only [stop](Child::stop) it.
    pub(crate) fn adopt(&mut self, until: u64) -> io::Result<bool> {
        // The kernel closes a dying process's files before it gives its children a new parent.
        self.reap_keeper();
        self.unkept = true;
        self.leader = self.leader.or_else(|| first_adopted(self.task.ticket().to_owned()));
        let task = Task { kind: TaskKind::Adopt(self.leader), until, ..self.task.clone() };
        (self.channel, self.keeper) = begin(&task, self.lifeline.as_ref())?;
        self.unkept = false;
        let look = WaitIdOptions::NOHANG | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        Ok(self.group().is_some_and(|group| waitid(WaitId::Pid(group), look).is_ok()))
    }

    /// Kills the command if its keeper has died and has no successor: its group, and all
    /// descendants that can be found. A process that is not found works on; its inherited lifeline
    /// keeps a file lock.
    pub(crate) fn kill_unkept(&self) {
        if !self.unkept {
            return;
        }
        if let Some(group) = self.group() {
            let _ = kill_process_group(group, Signal::KILL); // the group may be empty
        }
        for member in ProcessTree::Own.members().unwrap_or_default() {
            let _ = member.signal(Signal::KILL); // this process ends now and can do no more
        }
    }

    /// Returns an event of a command whose first keeper has died; reaps all other adopted children.
    fn event_of_orphan(&mut self) -> Option<ChildEvent> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if self.group() != Some(pid) {
                continue;
            }
            if let Some(signal) = status.stopping_signal().and_then(Signal::from_named_raw) {
                return Some(ChildEvent::Paused(signal));
            }
            if let Some(reason) = ExitReason::of(status) {
                self.has_ended = true;
                return Some(ChildEvent::Ended(reason));
            }
        }
        None
    }

    /// Waits for the end of the keeper, which ends by itself.
    pub(crate) fn reap_keeper(&self) {
        drop(ReapOnDrop(self.keeper));
    }

    /// After the command has ended: lets its descendants run on, and its keeper end.
    pub(crate) fn let_go(self) -> ReapOnDrop {
        resume(self.keeper);
        self.channel.send(Message::LetGo);
        ReapOnDrop(self.keeper)
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Starts a keeper for the task, and another if one is killed before it has taken the task over.
fn begin(task: &Task, lifeline: Option<&OwnedFd>) -> io::Result<(ControlChannel, Pid)> {
    for _ in 1..KEEPERS_MAX {
        match SpareKeeper::start()?.begin(task, lifeline) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            begun => return begun,
        }
    }
    SpareKeeper::start()?.begin(task, lifeline)
}

/// Continues a keeper that another process may have stopped.
fn resume(keeper: Pid) {
    let _ = kill_process(keeper, Signal::CONT); // a dead keeper is noticed by its channel
}

/// Makes the descendants of a keeper that dies children of this process.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn adopt_orphans() {
    // Without it, orphans are not found; the kernel has it since 3.4.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn adopt_orphans() {}
