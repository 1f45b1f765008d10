//! A child runs for as long as its lock is held, and not a moment longer.

use std::ffi::OsString;
use std::io;
use std::pin::Pin;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure::{Error, Guard, Loss};

use crate::bell::{Bell, is_ending};
use crate::child::{Child, News};
use crate::failure::{Failure, REFUSED, SIGNALLED, say};
use crate::stop::stop;
use crate::store::VARIABLE;
use crate::terminal::Terminal;
use crate::watchdog::Watchdog;

/// Most commands are over before it is worth while to have a thread and a process look after them; but
/// not under a lease, which would end while a process that was stopped at once looks after nobody.
const SETTLE: Duration = Duration::from_millis(10);
/// A lease that is about to end is not looked at more often.
const LOOK_MIN: Duration = Duration::from_millis(5);
/// Killing takes time, too: at most so much of a lease is kept for it.
const KILL_MAX: Duration = Duration::from_millis(250);

/// The exit code of a command that was killed.
const KILLED: u8 = SIGNALLED + 9;
/// Why a watchdog kills where the lock is not lost.
const LATE: &str = "this process stood still until the lock was about to be lost";

/// What to run, and how to end it.
pub(crate) struct Work<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) url: &'a str,
    pub(crate) kill_after: Duration,
    pub(crate) ttl: Duration,
}

/// What came of it.
pub(crate) enum End {
    /// The command ended by itself; its exit code.
    Done(u8),
    /// The lock was lost, and nothing of the command is left. Somebody may have asked to end, too.
    Lost { asked: Option<Signal> },
}

/// Runs the command under the lock. The guard is still to be released.
pub(crate) fn supervise(bell: &mut Bell, guard: &Guard, work: &Work<'_>) -> Result<End, Failure> {
    let mut terminal = Terminal::find();
    let token = guard.token().to_string();
    let variables =
        [("TENURE_KEY", guard.key().as_str()), ("TENURE_TOKEN", &token), (VARIABLE, work.url)];
    let child = Child::start(work.command, &variables, terminal.lend_at_start())
        .map_err(|error| Failure::new(REFUSED, format!("no process can be started: {error}")))?;
    let mut watch = Supervision::new(guard, work, &child);
    let end = watch.run(bell, &mut terminal);
    terminal.take_back(child.group());
    let end = end.map_err(|error| {
        // This process is blind now; the child must not go on alone.
        child.signal(Signal::KILL);
        Failure::new(REFUSED, format!("the command can no longer be watched: {error}"))
    });
    drop(watch);
    child.bury();
    end
}

struct Supervision<'a> {
    guard: &'a Guard,
    work: &'a Work<'a>,
    child: &'a Child,
    started: Instant,
    /// Once the command has settled.
    lost: Option<Pin<Box<dyn Future<Output = Loss> + 'a>>>,
    watchdog: Option<Watchdog>,
    asked: Option<Signal>,
}

impl<'a> Supervision<'a> {
    fn new(guard: &'a Guard, work: &'a Work<'a>, child: &'a Child) -> Self {
        let (started, lost, watchdog, asked) = (Instant::now(), None, None, None);
        Self { guard, work, child, started, lost, watchdog, asked }
    }

    fn run(&mut self, bell: &mut Bell, terminal: &mut Terminal) -> io::Result<End> {
        loop {
            for signal in bell.signals() {
                self.pass_on(signal);
            }
            match self.child.news()? {
                Some(News::Ended(KILLED)) if self.was_killed_in_time() => {
                    let why = self.why_stop(bell).unwrap_or_else(|| LATE.to_owned());
                    say(&format!("{why}; its watchdog has killed the command"));
                    let asked = stop(bell, self.child, Duration::ZERO)?;
                    return Ok(End::Lost { asked: asked.or(self.asked) });
                }
                Some(News::Ended(code)) => return Ok(End::Done(code)),
                Some(News::Stopped(signal)) => terminal.stopped(self.child, signal, bell),
                None => {}
            }
            if let Some(why) = self.why_stop(bell) {
                say(&format!("{why}; the command is stopped"));
                let patience = self.patience();
                let asked = stop(bell, self.child, patience)?;
                return Ok(End::Lost { asked: asked.or(self.asked) });
            }
            let pause = self.look_after()?;
            bell.wait(pause)?;
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        if is_ending(signal) {
            self.asked = Some(signal);
        }
        if signal != Signal::CHILD {
            self.child.signal(signal);
        }
    }

    /// Whether the watchdog ended the command, because nothing was heard of this process for too long.
    fn was_killed_in_time(&mut self) -> bool {
        self.watchdog.as_mut().is_some_and(Watchdog::has_killed)
    }

    /// Whether the lock is lost, or so close to it that the command needs what is left to end.
    fn why_stop(&mut self, bell: &Bell) -> Option<String> {
        if let Err(error) = self.guard.check() {
            return Some(self.sentence(&error));
        }
        let lost = self.lost.as_mut().and_then(|lost| bell.look(lost.as_mut()));
        if let Some(loss) = lost {
            return Some(self.sentence(&Error::lost(loss)));
        }
        let remaining = self.guard.remaining()?;
        (remaining <= self.grace()).then(|| {
            "the lock is about to be lost: the store has not confirmed it for too long".to_owned()
        })
    }

    /// A store that keeps leases may also have lost its data.
    fn sentence(&self, error: &Error) -> String {
        match (error.loss(), self.guard.remaining()) {
            (Some(Loss::Broken), Some(_)) => {
                format!("{error}, by a break or by a store that has lost its data")
            }
            _ => error.to_string(),
        }
    }

    /// Starts what a longer command needs, and says when to look again.
    fn look_after(&mut self) -> io::Result<Option<Duration>> {
        let age = self.started.elapsed();
        let is_leased = self.guard.remaining().is_some();
        if let Some(rest) = SETTLE.checked_sub(age).filter(|rest| !is_leased && !rest.is_zero()) {
            return Ok(Some(rest));
        }
        if self.lost.is_none() {
            let held = self.guard.held();
            self.lost = Some(Box::pin(async move { held.lost().await }));
            self.watchdog = Some(Watchdog::start(self.child)?);
            // Once more around: nobody waits for it yet.
            self.tell_watchdog();
            return Ok(Some(Duration::ZERO));
        }
        self.tell_watchdog();
        Ok(self.guard.remaining().map(|remaining| self.next_look(remaining)))
    }

    fn tell_watchdog(&mut self) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.tell(self.guard.remaining());
        }
    }

    /// The lock is renewed meanwhile, and the watchdog is to know of that soon: if this process is
    /// stopped, it goes by what it was told last.
    fn next_look(&self, remaining: Duration) -> Duration {
        remaining.saturating_sub(self.grace()).min(self.work.ttl / 8).max(LOOK_MIN)
    }

    /// How much of a lease that is not renewed is kept for the command's end: never so much that
    /// a single failed renewal would end it.
    fn grace(&self) -> Duration {
        self.work.kill_after.min(self.work.ttl / 6) + self.killing()
    }

    /// How long the command may take to end by itself.
    fn patience(&self) -> Duration {
        let remaining = self.guard.remaining().unwrap_or(Duration::MAX);
        remaining.saturating_sub(self.killing()).min(self.work.kill_after)
    }

    /// How much of a lease is kept for killing.
    fn killing(&self) -> Duration {
        KILL_MAX.min(self.work.ttl / 40)
    }
}

/// The exit code of a process that was asked to end by a signal.
pub(crate) fn ended_by(signal: Signal) -> u8 {
    SIGNALLED + u8::try_from(signal.as_raw()).unwrap_or(0)
}
