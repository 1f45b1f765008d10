//! A keeper stands between `tenure` and its command: the command and all that descends from it is the
//! keeper's family, and the lock is kept until nobody of the family is left.
//!
//! ```text
//! tenure ── leash ── keeper ── command ── …
//! ```
//!
//! The keeper has a duplicate of the file that the session keeps locked. If `tenure` dies, the leash ends: the
//! keeper kills its family, and only then ends itself, which frees the lock. Whoever loses its parent becomes the
//! keeper's child, so neither another process group nor another session is a way out. The keeper also
//! watches over a lease: it kills when nothing was heard of `tenure` until the lease is about to end.

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

use crate::alarm::{Alarm, NEVER};
use crate::failure::{USAGE, say};
use crate::family::Family;
use crate::job::NeverStopped;
use crate::leash::{Ending, Heard, Leash, Said};
use crate::process::{myself, pid_of};
use crate::screen::quoted;
use crate::shim;
use crate::signals::Signals;
use crate::task::{Task, What};

/// The word that makes this program a keeper.
pub(crate) const WORD: &str = "--keep";
/// What `ps` and `top` show. Nobody who kills everything that is called `tenure` kills this as well.
pub(crate) const NAME: &str = "lock-keeper";

/// Between two rounds of killing: whoever was being born during the last one is found by the next.
const ROUND_FIRST: Duration = Duration::from_millis(1);
const ROUND_MAX: Duration = Duration::from_millis(100);

/// Shells have files of their own below this number.
const LIFELINE_MIN: i32 = 60;
/// Behind standard input, output and error.
const STDIO_END: i32 = 3;

/// Whether orphans become this process's children. Where they do not, only the group is known.
pub(crate) const ADOPTS: bool = cfg!(any(target_os = "linux", target_os = "android"));

struct Keeper {
    leash: Leash,
    signals: Signals,
    alarm: Alarm,
    family: Family,
    /// The command, which leads its group; `None` if it is not known.
    group: Option<Pid>,
    /// The kernel has forgotten the command's number, and may give it to another.
    buried: bool,
    /// The command's key, as sentences name it.
    key: String,
    phase: Phase,
    /// Nobody of the family is ever killed: this waits until they end.
    spares: bool,
    /// Those who may not be killed have been named.
    named: bool,
    /// As long as this is open, the lock is kept; a lease has none.
    lifeline: Option<OwnedFd>,
}

enum Phase {
    /// The command works.
    Watching,
    /// It was asked to end, and is killed then.
    Ending(Instant),
    /// `tenure` has died, and the command may not be killed.
    Waiting,
    /// It is killed, with a pause after each round.
    Killing(Duration),
}

/// A keeper to be started, with its end of the leash.
pub(crate) fn command(leash: OwnedFd) -> io::Result<Command> {
    let mut command = myself()?;
    command.arg0(NAME).arg(WORD).stdin(Stdio::from(leash));
    Ok(command)
}

/// `--keep`, with the leash as standard input.
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
    /// `None` if there is no task, or if the command cannot be started, which is told.
    fn begin() -> io::Result<Option<Self>> {
        become_known();
        // Signals to a whole group or unit are the command's and its `tenure`'s; they only wake this process.
        let mut signals = Signals::hear()?;
        let never_stopped = NeverStopped::by_a_terminal();
        let leash = Leash::of_keeper()?;
        let Some((parts, files)) = leash.take_over()? else { return Ok(None) };
        let mut files = files.into_iter();
        let (stdin, lifeline) = (files.next(), files.next());
        let task = Task::unpack(parts).ok_or(io::ErrorKind::InvalidData)?;
        let mut alarm = Alarm::new()?;
        alarm.set(task.until);
        signals.listen(&leash)?;
        alarm.ring(&mut signals)?;
        let family = match task.what {
            What::Run { .. } => Family::Own,
            What::Adopt(group) => Family::Marked { group, marks: task.marks() },
        };
        let (key, phase) = (quoted(task.key()), Phase::Watching);
        let group = match task.what {
            What::Adopt(group) => group,
            What::Run { .. } => {
                match start(&task, stdin, &leash, lifeline.as_ref(), &never_stopped)? {
                    None => return Ok(None),
                    started => started,
                }
            }
        };
        Ok(Some(Self {
            leash,
            signals,
            alarm,
            family,
            group,
            buried: false,
            key,
            phase,
            spares: task.spares,
            named: false,
            lifeline,
        }))
    }

    /// Returns when the command has ended by itself, or when nobody is left.
    fn keep(&mut self) {
        loop {
            if self.obey() {
                return;
            }
            let ended = self.bury();
            match (&self.phase, ended) {
                (Phase::Watching, Some(ending)) => {
                    self.leash.say(Said::Ended(ending));
                    return;
                }
                (Phase::Watching, None) => {}
                _ if self.nobody_is_left() => {
                    self.leash.say(Said::Gone);
                    return;
                }
                _ => {}
            }
            let pause = self.act();
            let _signals_only_wake = self.signals.heard();
            if self.signals.wait(pause).is_err() {
                self.phase = Phase::Killing(ROUND_FIRST);
            }
        }
    }

    /// Does what was said on the leash. Says whether the command is to be left alone.
    fn obey(&mut self) -> bool {
        loop {
            match self.leash.hear() {
                Heard::Said(Said::Until(moment)) => self.alarm.set(moment),
                Heard::Said(Said::Stop(patience)) => self.ask_to_end(patience),
                Heard::Said(Said::LetGo) => return true,
                Heard::Said(_) => {}
                Heard::Nothing => return false,
                Heard::End => {
                    // It would ring all the time, and so would an alarm that nobody sets any more.
                    self.signals.listen_to_nothing_else();
                    if self.spares {
                        self.phase = Phase::Waiting;
                    } else {
                        self.kill_from_now_on();
                    }
                    return false;
                }
            }
        }
    }

    /// Waits for all that have ended. Says how the command did, or that it was paused.
    fn bury(&mut self) -> Option<Ending> {
        let mut ended = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if Some(pid) != self.group {
                continue;
            }
            if let Some(signal) = status.stopping_signal().and_then(Signal::from_named_raw) {
                self.leash.say(Said::Paused(signal));
            }
            ended = ended.or(Ending::of(status));
        }
        self.buried |= ended.is_some();
        ended
    }

    fn nobody_is_left(&self) -> bool {
        match &self.family {
            // The kernel says that there is no child, and so none of a child's.
            Family::Own => has_no_child() && (ADOPTS || !self.has_group()),
            Family::Marked { .. } => self.family.members().is_ok_and(|members| members.is_empty()),
        }
    }

    /// Does what it is time for, and says when to look again.
    fn act(&mut self) -> Option<Duration> {
        if self.alarm.is_due(SystemClock.now().boot_ns) {
            self.alarm.set(NEVER);
            if matches!(self.phase, Phase::Watching) {
                self.leash.say(Said::Late);
            }
            self.kill_from_now_on();
        }
        if let Phase::Ending(kill_at) = self.phase {
            let left = kill_at.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                return Some(left.min(self.alarm.pause()));
            }
            self.kill_from_now_on();
        }
        if let Phase::Killing(pause) = self.phase {
            self.kill();
            self.phase = Phase::Killing((pause * 2).min(ROUND_MAX));
            return Some(pause);
        }
        match (&self.phase, &self.family) {
            // Nobody rings for the end of those who are no children.
            (Phase::Waiting, Family::Marked { .. }) => Some(ROUND_MAX),
            _ => self.alarm.wakes_late().then(|| self.alarm.pause()),
        }
    }

    fn ask_to_end(&mut self, patience: Duration) {
        if !matches!(self.phase, Phase::Watching) {
            return;
        }
        let Some(kill_at) = Instant::now().checked_add(patience).filter(|_| !patience.is_zero())
        else {
            return self.kill_from_now_on();
        };
        self.phase = Phase::Ending(kill_at);
        // One that is stopped must go on to end.
        for signal in [Signal::TERM, Signal::CONT] {
            self.signal_group(signal);
            for member in self.family.members().unwrap_or_default() {
                if !self.group.is_some_and(|group| member.is_in(group)) {
                    let _named_if_it_stays = member.signal(signal);
                }
            }
        }
    }

    fn kill_from_now_on(&mut self) {
        if !matches!(self.phase, Phase::Killing(_)) {
            self.phase = Phase::Killing(ROUND_FIRST);
        }
    }

    fn kill(&mut self) {
        // The group is killed in one step, so nobody of it can be born meanwhile.
        self.signal_group(Signal::KILL);
        let members = match self.family.members() {
            Ok(members) => members,
            Err(error) => {
                let why = format!("without /proc it cannot be found ({error})");
                return self.name("what has left the group of the command", &why);
            }
        };
        let mut spared = Vec::new();
        for member in members {
            if member.signal(Signal::KILL).is_err() {
                spared.push(member.describe());
            }
        }
        if !spared.is_empty() {
            self.name(&spared.join(", "), "it may not be killed");
        }
    }

    /// Tells once who is left, and what that means.
    fn name(&mut self, who: &str, why: &str) {
        if std::mem::replace(&mut self.named, true) {
            return;
        }
        let key = &self.key;
        say(&match self.lifeline {
            Some(_) => format!("{key} stays locked until {who} has ended: {why}"),
            None => format!("{who} works on when the lock of {key} is another's: {why}"),
        });
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group.filter(|_| !self.buried || !ADOPTS) {
            let _all_gone = kill_process_group(group, signal);
        }
    }

    fn has_group(&self) -> bool {
        self.group.is_some_and(|group| test_kill_process_group(group).is_ok())
    }
}

/// Starts the command; `None` if it cannot be, which is told.
fn start(
    task: &Task,
    stdin: Option<OwnedFd>,
    leash: &Leash,
    lifeline: Option<&OwnedFd>,
    never_stopped: &NeverStopped,
) -> io::Result<Option<Pid>> {
    let stdin = stdin.ok_or(io::ErrorKind::InvalidData)?;
    let _inherited = lifeline.map(inheritable).transpose()?;
    match never_stopped.but_for(|| task.spawn(stdin)) {
        Ok(child) => {
            let group = pid_of(&child)?;
            leash.say(Said::Started(group));
            Ok(Some(group))
        }
        Err(error) => {
            let (code, sentence) = shim::explain(task.program(), &error);
            say(&sentence);
            leash.say(Said::Ended(Ending::Exited(code)));
            Ok(None)
        }
    }
}

/// The lifeline as a file that the command has open, too: if `tenure` and this process are killed in one go, a file lock
/// is kept until nobody of the command is left, as with `flock`.
fn inheritable(lifeline: &OwnedFd) -> io::Result<OwnedFd> {
    let file = match fcntl_dupfd_cloexec(lifeline, LIFELINE_MIN) {
        // So many files may not be open.
        Err(Errno::INVAL) => fcntl_dupfd_cloexec(lifeline, STDIO_END)?,
        file => file?,
    };
    fcntl_setfd(&file, FdFlags::empty())?;
    Ok(file)
}

/// Whether nobody has this process as a parent, not even one that has ended.
pub(crate) fn has_no_child() -> bool {
    let any = WaitIdOptions::NOHANG | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::All, any), Err(Errno::CHILD))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn become_known() {
    let name = std::ffi::CString::new(NAME).expect("the name has no NUL");
    let _shown_as_exe = rustix::thread::set_name(&name);
    // Without it, those whose parents have died are not seen.
    let _refused = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn become_known() {}
