//! Supervision: the command runs as long as its lock is held, and no longer.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::process::exit;
use std::time::Duration;

use rustix::process::Signal;
use tenure::{Error, LeaseHandle, Loss};

use super::alarm::NEVER;
use super::child::{Child, ChildEvent, ReapOnDrop, SpareKeeper};
use super::control_channel::ExitReason;
use super::lease::{Lease, until};
use super::nested;
use super::signals::{Signals, is_ending};
use super::stop::{Stopped, stop};
use super::task::{KEY, TOKEN, Task, TaskKind};
use super::terminal::Terminal;
use crate::failure::{Failure, LOST, REFUSED, say};
use crate::screen::quoted;
use crate::store::VARIABLE;

/// The reason for a kill by the keeper if the lock is not lost.
const LATE: &str = "this process was suspended until the lock was about to be lost";

/// The effect of a loss of the lock on the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnLost {
    /// End the command.
    Stop,
    /// Report the loss and let the command run on.
    Warn,
}

/// The command and how to end it.
pub(crate) struct Work<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) url: &'a str,
    pub(crate) kill_after: Duration,
    pub(crate) on_lost: OnLost,
    /// An open file that keeps the lock, if the store has one.
    pub(crate) lifeline: Option<&'a OwnedFd>,
    /// A further variable of the command.
    pub(crate) variable: Option<(&'static str, &'a str)>,
    /// A signal that asks this process to end stops all processes of the command, as a loss does.
    /// Otherwise the command gets it.
    pub(crate) stops_at_signals: bool,
}

/// The outcome of a supervision.
pub(crate) enum Outcome {
    /// The command ended by itself. Its keeper ends, too; it is waited for on drop.
    Done(ExitReason, ReapOnDrop),
    /// The lock was lost, and all processes of the command are gone. A signal may also have asked
    /// this process to end.
    Lost { asked: Option<Signal> },
    /// This signal asked this process to end before the command had begun.
    NeverRan { asked: Signal },
}

/// Starts a keeper for a command whose lock is requested next.
pub(crate) fn spare_keeper() -> Result<SpareKeeper, Failure> {
    SpareKeeper::start().map_err(|error| no_process(&error))
}

fn no_process(error: &io::Error) -> Failure {
    Failure::new(REFUSED, format!("no process can be started: {error}"))
}

/// Runs the command under the lock, with the spare keeper or a new one. The caller releases the
/// guard afterwards.
pub(crate) fn supervise(
    signals: &mut Signals,
    spare: Option<SpareKeeper>,
    guard: &LeaseHandle,
    work: &Work<'_>,
) -> Result<Outcome, Failure> {
    // Messages and files of this process may have taken longer than the lease.
    if let Err(error) = guard.check() {
        say(&format!("{}: {error}; the command was not started", quoted(guard.key().as_str())));
        return Ok(Outcome::Lost { asked: None });
    }
    let mut terminal = Terminal::find();
    let task = work.task(guard, terminal.lend_at_start());
    let lifeline = work.lifeline.map(OwnedFd::try_clone).transpose()?;
    let mut child = Child::start(spare, task, lifeline).map_err(|error| no_process(&error))?;
    // The command may run from here on: no error path may release the lock before it has ended.
    let end = signals
        .wake_on_only(&child)
        .and_then(|()| Supervision::new(guard, work, &mut child).run(signals, &mut terminal));
    signals.wake_on_nothing();
    if let Some(group) = child.leader() {
        let (has_exited, by) = match &end {
            Ok(End::Done(ExitReason::Exited(_))) => (true, None),
            Ok(End::Done(ExitReason::Killed(signal))) => {
                (false, Signal::from_named_raw((*signal).into()))
            }
            _ => (false, None),
        };
        terminal.ended(group, has_exited, by);
    }
    match end {
        Ok(End::Done(reason)) => Ok(Outcome::Done(reason, child.let_go())),
        Ok(End::Lost(Stopped { asked, are_gone: true })) => Ok(Outcome::Lost { asked }),
        Ok(End::Lost(Stopped { are_gone: false, .. })) => {
            // Nothing is released: the lock stays until the lease ends.
            let key = quoted(guard.key().as_str());
            say(&format!(
                "{key}: a process of the command cannot be killed, so the lock stays until its lease ends"
            ));
            exit(LOST.into())
        }
        Ok(End::NeverRan { asked }) => Ok(Outcome::NeverRan { asked }),
        Ok(End::NeverStarted(error)) => {
            Err(Failure::new(REFUSED, format!("the command cannot be started: {error}")))
        }
        Err(error) => {
            let what = if work.on_lost == OnLost::Warn { "works on" } else { "is killed" };
            if work.on_lost == OnLost::Stop {
                child.kill_unkept();
            }
            say(&format!("the command can no longer be watched, and {what}: {error}"));
            // The channel closes with this process, and the keeper kills the command or waits for
            // it. Nothing is released here: the lock stays until the keeper has ended, or until
            // the lease ends.
            exit(REFUSED.into())
        }
    }
}

impl Work<'_> {
    fn task(&self, guard: &LeaseHandle, with_terminal: bool) -> Task {
        let (token, held) = (guard.number().to_string(), nested::held(guard));
        let mut variables = vec![
            (KEY, guard.key().as_str()),
            (TOKEN, &token),
            (VARIABLE, self.url),
            (nested::VARIABLE, &held),
        ];
        variables.extend(self.variable);
        Task {
            kind: TaskKind::Run { command: self.command.to_vec(), with_terminal },
            until: if self.on_lost == OnLost::Warn { NEVER } else { until(guard) },
            spares: self.on_lost == OnLost::Warn,
            variables: variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        }
    }
}

enum End {
    Done(ExitReason),
    Lost(Stopped),
    NeverRan { asked: Signal },
    NeverStarted(io::Error),
}

struct Supervision<'a> {
    guard: &'a LeaseHandle,
    work: &'a Work<'a>,
    child: &'a mut Child,
    lease: Lease,
    lost: Pin<Box<dyn Future<Output = Loss> + 'a>>,
    asked: Option<Signal>,
    /// A loss was reported, and the command works on.
    warned: bool,
}

impl<'a> Supervision<'a> {
    fn new(guard: &'a LeaseHandle, work: &'a Work<'a>, child: &'a mut Child) -> Self {
        let (lease, handle) = (Lease::of(guard, work.kill_after), guard.clone());
        let lost = Box::pin(async move { handle.lost().await });
        Self { guard, work, child, lease, lost, asked: None, warned: false }
    }

    fn run(&mut self, signals: &mut Signals, terminal: &mut Terminal) -> io::Result<End> {
        loop {
            for signal in signals.take() {
                self.pass_on(signal);
            }
            if self.work.stops_at_signals && self.asked.is_some() {
                let why = format!("{}: the command is stopped", self.key());
                return self.stop(signals, why, self.lease.grace());
            }
            while let Some(event) = self.child.event() {
                match event {
                    ChildEvent::Ended(reason) => return Ok(End::Done(reason)),
                    ChildEvent::Paused(signal) => terminal.stopped(self.child, signal, signals),
                    ChildEvent::Late => {
                        let why = self.why_stop(signals).unwrap_or_else(|| LATE.to_owned());
                        let key = self.key();
                        let sentence = format!("{key}: {why}; its keeper has killed the command");
                        return self.stop(signals, sentence, Duration::ZERO);
                    }
                    ChildEvent::Orphaned if self.child.has_never_run() => {
                        if let Some(signal) = self.asked {
                            return Ok(End::NeverRan { asked: signal });
                        }
                        if let Err(error) = self.child.restart(self.deadline()) {
                            return Ok(End::NeverStarted(error));
                        }
                        signals.wake_on_only(&*self.child)?;
                    }
                    ChildEvent::Orphaned | ChildEvent::Gone => {
                        let runs = self.child.adopt(self.deadline())?;
                        signals.wake_on_only(&*self.child)?;
                        if !runs {
                            let why =
                                "the keeper of the command was killed; the command is stopped";
                            return self.stop(signals, why.to_owned(), self.lease.grace());
                        }
                    }
                }
            }
            if self.work.on_lost == OnLost::Warn {
                self.warn(signals);
            } else if let Some(why) = self.why_stop(signals) {
                let sentence = format!("{}: {why}; the command is stopped", self.key());
                return self.stop(signals, sentence, self.lease.grace());
            }
            self.child.extend(self.deadline());
            let is_leased = !self.warned && self.lease.exists();
            signals.wait(is_leased.then(|| self.lease.next_look()))?;
        }
    }

    /// Reports a loss once, and lets the command work on.
    fn warn(&mut self, signals: &Signals) {
        if self.warned {
            return;
        }
        let checked = self.guard.check();
        if checked.is_ok() {
            self.lease.renew(self.guard);
        }
        let lost = signals.poll(self.lost.as_mut()).map(Error::lost);
        if let Some(error) = checked.err().or(lost) {
            self.warned = true;
            say(&format!(
                "{}: {}; the command works on, and others may work beside it",
                self.key(),
                self.explain(&error)
            ));
        }
    }

    fn stop(&mut self, signals: &mut Signals, why: String, grace: Duration) -> io::Result<End> {
        let stopped = stop(signals, self.child, why, grace, self.lease.exists())?;
        Ok(End::Lost(Stopped { asked: stopped.asked.or(self.asked), ..stopped }))
    }

    fn pass_on(&mut self, signal: Signal) {
        if is_ending(signal) {
            self.asked = Some(signal);
        }
        if signal != Signal::CHILD && !(is_ending(signal) && self.work.stops_at_signals) {
            self.child.signal(signal);
        }
    }

    fn key(&self) -> String {
        quoted(self.guard.key().as_str())
    }

    /// Returns why the command must end: the lock is lost, or the rest of its lease is needed for
    /// ending the command.
    fn why_stop(&mut self, signals: &Signals) -> Option<String> {
        if let Err(error) = self.guard.check() {
            return Some(self.explain(&error));
        }
        self.lease.renew(self.guard);
        if let Some(loss) = signals.poll(self.lost.as_mut()) {
            return Some(self.explain(&Error::lost(loss)));
        }
        self.lease.is_short().then(|| {
            let reason = self.reason().unwrap_or_default();
            format!(
                "the lock is about to be lost: the store has not renewed its lease in time{reason}"
            )
        })
    }

    /// Returns why the last renewal failed, in brackets.
    fn reason(&self) -> Option<String> {
        let trouble = self.guard.trouble()?;
        Some(format!(" (the last renewal failed: {trouble})"))
    }

    /// Explains a loss. A store with leases may also have lost its data, or an operator may have
    /// removed tickets.
    fn explain(&self, error: &Error) -> String {
        match error.loss() {
            Some(Loss::Broken) if self.guard.was_asked_to_leave() => {
                "the lock is lost: `tenure break` or a program asked this holder to leave".into()
            }
            Some(Loss::Broken) if self.lease.exists() => {
                "the lock is lost: its ticket was removed by a break, by an operator of the store, \
                 or by a store that lost its data"
                    .into()
            }
            // A store that refuses requests is reachable.
            Some(Loss::Unreachable) if let Some(reason) = self.reason() => {
                format!(
                    "the lock is lost: the store renewed nothing before its lease ended{reason}"
                )
            }
            _ => error.to_string(),
        }
    }

    /// When the keeper kills if it receives nothing else.
    fn deadline(&self) -> u64 {
        if self.work.on_lost == OnLost::Warn { NEVER } else { self.lease.until() }
    }
}
