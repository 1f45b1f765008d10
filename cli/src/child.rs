//! The child is the command that runs under a lock, with its keeper between it and this process.

use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, wait,
    waitid, waitpid,
};

use crate::family::{Family, first_adopted};
use crate::keeper::{self, ADOPTS, has_no_child};
use crate::leash::{Ending, Heard, Leash, Said};
use crate::process::pid_of;
use crate::task::{Task, What};

/// So many keepers may be killed before one of them has started a command.
const KEEPERS_MAX: u32 = 5;

/// What became of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It has ended by itself.
    Ended(Ending),
    /// It has stopped, and can be continued.
    Paused(Signal),
    /// Its keeper kills it, because nothing was heard of this process for too long.
    Late,
    /// Nothing of it is left.
    Gone,
    /// Its keeper has died.
    Orphaned,
}

/// A keeper that ends by itself. Dropped, this waits for its end: where nobody buries orphans, as in many a
/// container, it would be left for ever.
pub(crate) struct Burial(Pid);

impl Drop for Burial {
    fn drop(&mut self) {
        let _buried_already = waitpid(Some(self.0), WaitOptions::empty());
    }
}

/// A keeper without a task. It is started before the lock is asked for: its own start takes about as long as that of a
/// small command, and the lock is not held meanwhile. Dropped, it ends.
pub(crate) struct Idle {
    leash: Leash,
    keeper: Unused,
}

/// The number of a keeper that has nothing to lose.
struct Unused(Pid);

impl Drop for Unused {
    fn drop(&mut self) {
        // Whoever buried it already has also given its number away.
        if let Ok(None) = waitpid(Some(self.0), WaitOptions::NOHANG) {
            let _it_just_died = kill_process(self.0, Signal::KILL);
            drop(Burial(self.0));
        }
    }
}

impl Idle {
    pub(crate) fn start() -> io::Result<Self> {
        let (leash, keepers) = Leash::new()?;
        let keeper = keeper::command(keepers)?.process_group(0).spawn()?;
        Ok(Self { leash, keeper: Unused(pid_of(&keeper)?) })
    }

    /// Hands the task over. One that cannot take it has never started its command.
    fn begin(self, task: &Task, lifeline: Option<&OwnedFd>) -> io::Result<(Leash, Pid)> {
        go_on(self.keeper.0);
        let stdin = io::stdin();
        let files: Vec<BorrowedFd<'_>> =
            [Some(stdin.as_fd()), lifeline.map(AsFd::as_fd)].into_iter().flatten().collect();
        let parts = task.pack();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        self.leash.hand_over(&parts, &files)?;
        Ok((self.leash, ManuallyDrop::new(self.keeper).0))
    }
}

/// A command, and the keeper that has started it.
pub(crate) struct Child {
    task: Task,
    lifeline: Option<OwnedFd>,
    leash: Leash,
    keeper: Pid,
    /// Its number, which is that of its group, once it runs.
    leader: Option<Pid>,
    has_ended: bool,
    /// Signals that came before it ran.
    early: Vec<Signal>,
    /// How many keepers died before they had started it.
    restarts: u32,
    /// Its keeper has died, and there is no other.
    unkept: bool,
}

impl Child {
    /// Has a keeper start a command. The keeper holds on to the lifeline until nothing of the command is left.
    pub(crate) fn start(
        idle: Option<Idle>,
        task: Task,
        lifeline: Option<OwnedFd>,
    ) -> io::Result<Self> {
        adopt_orphans();
        // One that waited may have been killed meanwhile.
        let begun = idle.and_then(|idle| idle.begin(&task, lifeline.as_ref()).ok());
        let (leash, keeper) = match begun {
            Some(begun) => begun,
            None => begin(&task, lifeline.as_ref())?,
        };
        Ok(Self {
            task,
            lifeline,
            leash,
            keeper,
            leader: None,
            has_ended: false,
            early: Vec::new(),
            restarts: 0,
            unkept: false,
        })
    }

    /// Its keeper has died, before it had started anything: nobody has become this process's child by that. Where orphans
    /// do not, that cannot be known.
    pub(crate) fn has_never_run(&self) -> bool {
        self.bury_keeper();
        ADOPTS && self.leader.is_none() && has_no_child()
    }

    /// Has another keeper start what has never run. Not without end: something may kill each of them.
    pub(crate) fn restart(&mut self, until: u64) -> io::Result<()> {
        if self.restarts == KEEPERS_MAX {
            let why = format!("{KEEPERS_MAX} keepers were killed before they had started it");
            return Err(io::Error::other(why));
        }
        self.restarts += 1;
        self.task.until = until;
        (self.leash, self.keeper) = begin(&self.task, self.lifeline.as_ref())?;
        Ok(())
    }

    /// Its number, if it has ever run.
    pub(crate) fn leader(&self) -> Option<Pid> {
        self.leader
    }

    /// The number of its group, if it runs.
    pub(crate) fn group(&self) -> Option<Pid> {
        self.leader.filter(|_| !self.has_ended)
    }

    /// Tells all of the group; as soon as there is one.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.leader.is_none() {
            self.early.push(signal);
            go_on(self.keeper);
        }
        if let Some(group) = self.group() {
            let _all_gone = kill_process_group(group, signal);
        }
    }

    /// What has happened, if anything has since the last call.
    pub(crate) fn news(&mut self) -> Option<News> {
        loop {
            let said = match self.leash.hear() {
                Heard::Said(said) => said,
                Heard::Nothing => return self.own_news(),
                Heard::End => return Some(News::Orphaned),
            };
            return Some(match said {
                Said::Started(group) => {
                    self.leader = Some(group);
                    for signal in std::mem::take(&mut self.early) {
                        self.signal(signal);
                    }
                    continue;
                }
                Said::Ended(ending) => {
                    self.has_ended = true;
                    News::Ended(ending)
                }
                Said::Paused(signal) => News::Paused(signal),
                Said::Late => News::Late,
                Said::Gone => News::Gone,
                Said::Until(_) | Said::Stop(_) | Said::LetGo => continue,
            });
        }
    }

    /// Until when the lock can be relied on.
    pub(crate) fn tell(&mut self, until: u64) {
        if self.task.until != until {
            self.task.until = until;
            self.leash.say(Said::Until(until));
        }
    }

    /// Has all of it ended: politely for so long, and then not. [`EventBatch::Gone`] comes when it is.
    pub(crate) fn stop(&self, patience: Duration) {
        go_on(self.keeper);
        self.leash.say(Said::Stop(patience));
    }

    /// Its keeper has died: another one watches over it from now on. Says whether the child goes on, as this
    /// process's own child; otherwise all that can be done is to [stop](Child::stop) it.
    pub(crate) fn adopt(&mut self, until: u64) -> io::Result<bool> {
        // Its files are closed first, and only then have its children another parent.
        self.bury_keeper();
        self.unkept = true;
        self.leader = self.leader.or_else(|| first_adopted(self.task.marks()));
        let task = Task { what: What::Adopt(self.leader), until, ..self.task.clone() };
        (self.leash, self.keeper) = begin(&task, self.lifeline.as_ref())?;
        self.unkept = false;
        let look = WaitIdOptions::NOHANG | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        Ok(self.group().is_some_and(|group| waitid(WaitId::Pid(group), look).is_ok()))
    }

    /// Kills what nobody else would, where its keeper has died and no other can be started: its group, and whoever else can
    /// be found where so little can be opened. What cannot be found works on; its lifeline keeps a lock of files.
    pub(crate) fn kill_unkept(&self) {
        if !self.unkept {
            return;
        }
        if let Some(group) = self.group() {
            let _all_gone = kill_process_group(group, Signal::KILL);
        }
        for member in Family::Own.members().unwrap_or_default() {
            let _gone_or_not_allowed = member.signal(Signal::KILL);
        }
    }

    /// What a child without its first keeper has done. Whoever else has become this process's child is buried.
    fn own_news(&mut self) -> Option<News> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if self.group() != Some(pid) {
                continue;
            }
            if let Some(signal) = status.stopping_signal().and_then(Signal::from_named_raw) {
                return Some(News::Paused(signal));
            }
            if let Some(ending) = Ending::of(status) {
                self.has_ended = true;
                return Some(News::Ended(ending));
            }
        }
        None
    }

    /// Nothing of it is left, and its keeper ends.
    pub(crate) fn bury_keeper(&self) {
        drop(Burial(self.keeper));
    }

    /// It has ended, and what it may have left runs on: its keeper ends, too.
    pub(crate) fn let_go(self) -> Burial {
        self.leash.say(Said::LetGo);
        Burial(self.keeper)
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.leash.as_fd()
    }
}

/// Hands the task to a keeper that is started now, or to the next one if it is killed before it has taken it.
fn begin(task: &Task, lifeline: Option<&OwnedFd>) -> io::Result<(Leash, Pid)> {
    for _ in 1..KEEPERS_MAX {
        match Idle::start()?.begin(task, lifeline) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            begun => return begun,
        }
    }
    Idle::start()?.begin(task, lifeline)
}

/// Somebody may have stopped the keeper, too.
fn go_on(keeper: Pid) {
    let _it_is_dead = kill_process(keeper, Signal::CONT);
}

/// If the keeper dies, its family becomes this process's.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn adopt_orphans() {
    let _refused = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn adopt_orphans() {}
