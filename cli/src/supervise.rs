//! A child runs for as long as its lock is held, and not a moment longer.

use std::ffi::OsString;
use std::io;
use std::pin::Pin;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tenure::{Guard, Loss};

use crate::bell::{Bell, is_ending};
use crate::child::{Child, News};
use crate::failure::{Failure, REFUSED, SIGNALLED, say};
use crate::stop::stop;
use crate::store::VARIABLE;
use crate::terminal::Terminal;
use crate::watchdog::Watchdog;

/// Most commands are over before it is worth while to have a thread and a process look after them.
const SETTLE: Duration = Duration::from_millis(10);
/// A store that renews is asked how long the lock lives at least so rarely.
const LOOK_MIN: Duration = Duration::from_millis(5);

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

    /// Whether the lock is lost, or so close to it that the command needs what is left to end.
    fn why_stop(&mut self, bell: &Bell) -> Option<String> {
        if let Err(error) = self.guard.check() {
            return Some(error.to_string());
        }
        let lost = self.lost.as_mut().and_then(|lost| bell.look(lost.as_mut()));
        if let Some(loss) = lost {
            return Some(format!("the lock is lost: {loss}"));
        }
        let remaining = self.guard.remaining()?;
        (remaining <= self.grace()).then(|| {
            "the lock is about to be lost: the store has not confirmed it for too long".to_owned()
        })
    }

    /// Starts what a longer command needs, and says when to look again.
    fn look_after(&mut self) -> io::Result<Option<Duration>> {
        let age = self.started.elapsed();
        if let Some(rest) = SETTLE.checked_sub(age).filter(|rest| !rest.is_zero()) {
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

    /// The lock is renewed meanwhile, so that usually much is left again by then.
    fn next_look(&self, remaining: Duration) -> Duration {
        remaining.saturating_sub(self.grace()).min(remaining / 2).max(LOOK_MIN)
    }

    /// How much of a lease that is not renewed is kept for the command's end: never so much that
    /// a single failed renewal would end it.
    fn grace(&self) -> Duration {
        self.work.kill_after.min(self.work.ttl / 6)
    }

    /// How long the command may take to end.
    fn patience(&self) -> Duration {
        let remaining = self.guard.remaining().unwrap_or(Duration::MAX);
        remaining.min(self.work.kill_after)
    }
}

/// The exit code of a process that was asked to end by a signal.
pub(crate) fn ended_by(signal: Signal) -> u8 {
    SIGNALLED + u8::try_from(signal.as_raw()).unwrap_or(0)
}
