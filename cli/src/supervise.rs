//! A child runs for as long as its lock is held, and not a moment longer.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::exit;
use std::time::Duration;

use rustix::process::Signal;
use tenure::{Error, Guard, Loss};

use crate::alarm::NEVER;
use crate::child::{Burial, Child, Idle, News};
use crate::failure::{Failure, REFUSED, say};
use crate::lease::{Lease, until};
use crate::leash::Ending;
use crate::nested;
use crate::screen::quoted;
use crate::signals::{Signals, is_ending};
use crate::stop::stop;
use crate::store::VARIABLE;
use crate::task::{KEY, TOKEN, Task, What};
use crate::terminal::Terminal;

/// Why a keeper kills where the lock is not lost.
const LATE: &str = "this process stood still until the lock was about to be lost";

/// What the loss of the lock means for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnLost {
    /// It is ended.
    Stop,
    /// It works on, and somebody is told.
    Warn,
}

/// What to run, and how to end it.
pub(crate) struct Work<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) url: &'a str,
    pub(crate) kill_after: Duration,
    pub(crate) on_lost: OnLost,
    /// As long as this is open somewhere, the lock is kept; if the store has such a thing.
    pub(crate) lifeline: Option<&'a OwnedFd>,
}

/// What came of it.
pub(crate) enum End {
    /// The command ended by itself. Its keeper does so, too, which need not be waited for at once.
    Done(Ending, Burial),
    /// The lock was lost, and nothing of the command is left. Somebody may have asked to end, too.
    Lost { asked: Option<Signal> },
    /// Somebody asked to end before the command had begun.
    NeverRan { asked: Signal },
}

/// A keeper for a command whose lock is asked for now.
pub(crate) fn keeper() -> Result<Idle, Failure> {
    Idle::start().map_err(|error| no_process(&error))
}

fn no_process(error: &io::Error) -> Failure {
    Failure::new(REFUSED, format!("no process can be started: {error}"))
}

/// Runs the command under the lock, with a keeper that was started already or a new one. The guard is still to be
/// released.
pub(crate) fn supervise(
    signals: &mut Signals,
    idle: Option<Idle>,
    guard: &Guard,
    work: &Work<'_>,
) -> Result<End, Failure> {
    let mut terminal = Terminal::find();
    let task = work.task(guard, terminal.lend_at_start());
    let lifeline = work.lifeline.map(OwnedFd::try_clone).transpose()?;
    let mut child = Child::start(idle, task, lifeline).map_err(|error| no_process(&error))?;
    // From here on the command may run: nothing may give the lock back on the way out before it has ended.
    let end = signals
        .listen_only(&child)
        .and_then(|()| Supervision::new(guard, work, &mut child).run(signals, &mut terminal));
    signals.listen_to_nothing_else();
    if let Some(group) = child.leader() {
        let by = match &end {
            Ok(Verdict::Done(Ending::Killed(signal))) => Signal::from_named_raw((*signal).into()),
            _ => None,
        };
        terminal.ended(group, by);
    }
    match end {
        Ok(Verdict::Done(ending)) => Ok(End::Done(ending, child.let_go())),
        Ok(Verdict::Lost { asked }) => Ok(End::Lost { asked }),
        Ok(Verdict::NeverRan { asked }) => Ok(End::NeverRan { asked }),
        Ok(Verdict::NeverStarted(error)) => {
            Err(Failure::new(REFUSED, format!("the command cannot be started: {error}")))
        }
        Err(error) => {
            let what = if work.on_lost == OnLost::Warn { "works on" } else { "is killed" };
            say(&format!("the command can no longer be watched, and {what}: {error}"));
            if work.on_lost == OnLost::Stop {
                child.kill_unkept();
            }
            // With this process the leash ends, and the keeper kills the command, or waits for it. Nothing is given back on the
            // way: the lock stays until the keeper has ended, or until its life in the store is over.
            exit(REFUSED.into())
        }
    }
}

impl Work<'_> {
    fn task(&self, guard: &Guard, with_terminal: bool) -> Task {
        let variables = [
            (KEY, guard.key().as_str()),
            (TOKEN, &guard.token().to_string()),
            (VARIABLE, self.url),
            (nested::VARIABLE, &nested::held(guard)),
        ];
        Task {
            what: What::Run { words: self.command.to_vec(), with_terminal },
            until: if self.on_lost == OnLost::Warn { NEVER } else { until(guard) },
            spares: self.on_lost == OnLost::Warn,
            variables: variables.map(|(name, value)| (name.into(), value.into())).to_vec(),
        }
    }
}

enum Verdict {
    Done(Ending),
    Lost { asked: Option<Signal> },
    NeverRan { asked: Signal },
    NeverStarted(io::Error),
}

struct Supervision<'a> {
    guard: &'a Guard,
    work: &'a Work<'a>,
    child: &'a mut Child,
    lease: Lease,
    lost: Pin<Box<dyn Future<Output = Loss> + 'a>>,
    asked: Option<Signal>,
    /// A loss was told, and the command works on.
    warned: bool,
}

impl<'a> Supervision<'a> {
    fn new(guard: &'a Guard, work: &'a Work<'a>, child: &'a mut Child) -> Self {
        let (lease, held) = (Lease::of(guard, work.kill_after), guard.handle());
        let lost = Box::pin(async move { held.lost().await });
        Self { guard, work, child, lease, lost, asked: None, warned: false }
    }

    fn run(&mut self, signals: &mut Signals, terminal: &mut Terminal) -> io::Result<Verdict> {
        loop {
            for signal in signals.heard() {
                self.pass_on(signal);
            }
            while let Some(news) = self.child.news() {
                match news {
                    News::Ended(ending) => return Ok(Verdict::Done(ending)),
                    News::Paused(signal) => terminal.stopped(self.child, signal, signals),
                    News::Late => {
                        let why = self.why_stop(signals).unwrap_or_else(|| LATE.to_owned());
                        let key = self.key();
                        let sentence = format!("{key}: {why}; its keeper has killed the command");
                        return self.stop(signals, &sentence, Duration::ZERO);
                    }
                    News::Orphaned if self.child.has_never_run() => {
                        if let Some(signal) = self.asked {
                            return Ok(Verdict::NeverRan { asked: signal });
                        }
                        if let Err(error) = self.child.restart(self.deadline()) {
                            return Ok(Verdict::NeverStarted(error));
                        }
                        signals.listen_only(&*self.child)?;
                    }
                    News::Orphaned | News::Gone => {
                        if !self.child.adopt(self.deadline())? {
                            signals.listen_only(&*self.child)?;
                            let sentence =
                                "the keeper of the command was killed; the command is stopped";
                            return self.stop(signals, sentence, self.lease.patience());
                        }
                        signals.listen_only(&*self.child)?;
                    }
                }
            }
            if self.work.on_lost == OnLost::Warn {
                self.warn(signals);
            } else if let Some(why) = self.why_stop(signals) {
                return self.stop(
                    signals,
                    &format!("{}: {why}; the command is stopped", self.key()),
                    self.lease.patience(),
                );
            }
            let pause = self.look_after();
            signals.wait(pause)?;
        }
    }

    /// Tells a loss once, and lets the command work on.
    fn warn(&mut self, signals: &Signals) {
        if self.warned {
            return;
        }
        let checked = self.guard.check();
        if checked.is_ok() {
            self.lease.renew(self.guard);
        }
        let lost = signals.look(self.lost.as_mut()).map(Error::lost);
        if let Some(error) = checked.err().or(lost) {
            self.warned = true;
            say(&format!(
                "{}: {}; the command works on, and others may work beside it",
                self.key(),
                self.sentence(&error)
            ));
        }
    }

    fn stop(
        &mut self,
        signals: &mut Signals,
        sentence: &str,
        patience: Duration,
    ) -> io::Result<Verdict> {
        say(sentence);
        let asked = stop(signals, self.child, patience, self.lease.is_one())?;
        Ok(Verdict::Lost { asked: asked.or(self.asked) })
    }

    fn pass_on(&mut self, signal: Signal) {
        if is_ending(signal) {
            self.asked = Some(signal);
        }
        if signal != Signal::CHILD {
            self.child.signal(signal);
        }
    }

    /// The key, as a sentence about its lock begins.
    fn key(&self) -> String {
        quoted(self.guard.key().as_str())
    }

    /// Whether the lock is lost, or so close to it that the command needs what is left to end.
    fn why_stop(&mut self, signals: &Signals) -> Option<String> {
        if let Err(error) = self.guard.check() {
            return Some(self.sentence(&error));
        }
        self.lease.renew(self.guard);
        if let Some(loss) = signals.look(self.lost.as_mut()) {
            return Some(self.sentence(&Error::lost(loss)));
        }
        self.lease.is_short().then(|| {
            let reason = self.reason().unwrap_or_default();
            format!(
                "the lock is about to be lost: the store has not confirmed it for too long{reason}"
            )
        })
    }

    /// Why the last renewal failed, as a sentence ends.
    fn reason(&self) -> Option<String> {
        let trouble = self.guard.trouble()?;
        Some(format!(" (the last renewal failed: {trouble})"))
    }

    /// A store that keeps leases may also have lost its data, or have an operator who takes tickets out.
    fn sentence(&self, error: &Error) -> String {
        match error.loss() {
            Some(Loss::Broken) if self.guard.was_told() => {
                "the lock is lost: somebody told this holder to leave, with `tenure break` or in a program"
                    .into()
            }
            Some(Loss::Broken) if self.lease.is_one() => {
                format!(
                    "{error}, by a break, by an operator of the store, or by a store that has lost its data"
                )
            }
            // A store that refuses can be reached.
            Some(Loss::Unreachable) if let Some(reason) = self.reason() => {
                format!(
                    "the lock is lost: the store confirmed no renewal until its life was over{reason}"
                )
            }
            _ => error.to_string(),
        }
    }

    /// Does what a longer command needs, and says when to look again.
    fn look_after(&mut self) -> Option<Duration> {
        self.child.tell(self.deadline());
        (!self.warned && self.lease.is_one()).then(|| self.lease.next_look())
    }

    /// When the keeper is to kill, if it has heard nothing else.
    fn deadline(&self) -> u64 {
        if self.work.on_lost == OnLost::Warn { NEVER } else { self.lease.until() }
    }
}
