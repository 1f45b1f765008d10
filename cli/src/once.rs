//! `tenure once`: a command runs under a lock, and succeeds once for each slot of its schedule.

mod schedule;
mod slots;

use std::ffi::OsString;
use std::time::Duration;

use tenure::{LeaseHandle, Once, SlotAttempt, SlotRun, SlotStart, SlotState};
use tenure_kit::duration::{self, brief};
use tenure_kit::registry::OpenedStore;

use self::schedule::{Cron, retry};
use crate::acquisition::{Acquisition, LockMode};
use crate::failure::{Failure, LOST, NOTHING, UNREACHABLE, say, say_if};
use crate::retry_budget::RetryBudget;
use crate::run::open;
use crate::screen::{printable, quoted};
use crate::store::{Address, close};
use crate::supervisor::signals::Signals;
use crate::supervisor::supervise::{OnLost, Outcome, Work, spare_keeper, supervise};
use crate::supervisor::{ExitReason, look_up, nested};

/// The variable with the name of the slot.
const SLOT: &str = "TENURE_SLOT";

/// Runs a command once for each slot of its schedule.
///
/// A slot is a time of the schedule, or any name. Start this on every machine, for example by cron:
/// the first caller runs the command under the lock of KEY. A caller that comes during the run
/// waits for its end, or exits with 75 (--no-wait, --wait). After a success, every caller of the
/// slot exits with 0 at once and prints when and where it ran.
///
/// A run has succeeded if the command exits with 0, also after a signal. A run that fails, that is
/// killed, or that loses its lock frees the slot: the next caller runs it again. --retry limits
/// that. The work may therefore run twice: if tenure dies after the command
/// has ended and before the store has the success, the next caller runs it again. A later run has a
/// higher TENURE_TOKEN.
///
/// Each machine computes the slot from its own clock. The clocks must differ by less than the time
/// between two slots. The store keeps the latest slot of a key without a time limit, and older
/// slots for --keep, at most 512. A machine whose clock is ahead by more than --keep deletes the
/// older slots. A store that loses its data, such as a Redis without persistence, runs slots again.
///
/// A call never runs the command twice. With --no-wait, a caller that leaves during a run does not
/// come back when that run fails. The message about an earlier success goes to standard error, and
/// cron may mail it; --quiet suppresses it.
///
/// The command finds TENURE_SLOT in its environment, and the variables of `tenure run`. It is
/// supervised as there.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown, reason = "it is a page for terminals")]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[command(after_help = "Example:\n  tenure once nightly --cron '0 3 * * *' -- ./backup.sh")]
#[command(after_long_help = "\
Examples:
  tenure once nightly --cron '0 3 * * *' -- ./backup.sh
  tenure once sync --every 15m -n -- ./sync.sh
  tenure once migrate --slot v42 --keep 365d --retry fail -- ./migrate.sh
  tenure once nightly --list
  tenure once nightly --reset 2026-11-28T03:00:00Z")]
pub(crate) struct Args {
    /// The key of the job, whose lock the command runs under.
    #[arg(hide_short_help = true)]
    key: String,
    /// The name of the slot.
    #[arg(long, value_name = "TEXT", group = "which")]
    slot: Option<String>,
    /// A slot begins every TIME, counted from 1970 in UTC.
    ///
    /// With 24h, slots begin at midnight in UTC.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, group = "which")]
    every: Option<Duration>,
    /// A slot begins at each time of this cron expression.
    ///
    /// It has the five fields of crontab(5), or six with seconds first, in the time zone of this
    /// machine, or of TZ. All machines need the same time zone. Use the expression by which cron
    /// starts the command.
    #[arg(long, value_name = "EXPRESSION", group = "which")]
    cron: Option<Cron>,
    /// How long the store keeps a slot [default: 7d].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    keep: Option<Duration>,
    /// Allows N further runs of a slot, each by a later call; `fail` allows none.
    ///
    /// A slot whose runs have all failed, or were killed, is given up: its callers exit with 1.
    /// Without --retry, a slot runs until it has succeeded.
    #[arg(long, value_name = "N|fail", value_parser = retry)]
    retry: Option<u32>,
    /// Exits with 75 at once if the lock is busy.
    #[arg(short, long, aliases = ["nonblock", "nb"])]
    no_wait: bool,
    /// Exits with 75 after this time [default: never].
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse, alias = "timeout",
        conflicts_with = "no_wait")]
    wait: Option<Duration>,
    /// Exits with this code instead of 75.
    #[arg(
        short = 'E',
        long,
        value_name = "CODE",
        alias = "conflict-exit-code",
        hide_short_help = true
    )]
    busy_code: Option<u8>,
    /// A text that others see in the line.
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    note: Option<String>,
    /// How long a lease outlives a crash [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, hide_short_help = true)]
    ttl: Option<Duration>,
    /// The time from TERM to KILL on a loss [default: 5s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "5s",
        hide_default_value = true, hide_short_help = true)]
    kill_after: Duration,
    /// Reports the lock and the end of the command.
    #[arg(short, long)]
    verbose: bool,
    /// Shows the slots that the store keeps, and runs nothing.
    ///
    /// With --json, a slot is an object with `key`, `slot`, `state` (begun, failed or succeeded),
    /// `attempts`, `at`, `owner`, `token` and `kept_until`.
    #[arg(long, group = "look", conflicts_with_all = ["which", "command"])]
    list: bool,
    /// Forgets this slot, so that it runs again.
    #[arg(long, value_name = "SLOT", group = "look", conflicts_with_all = ["which", "command"])]
    reset: Option<String>,
    /// Forgets all slots of the key.
    #[arg(long, group = "look", conflicts_with_all = ["which", "command"], hide_short_help = true)]
    reset_all: bool,
    /// The command and its arguments.
    #[arg(
        last = true,
        required_unless_present = "look",
        requires = "which",
        value_name = "CMD",
        hide_short_help = true
    )]
    pub(crate) command: Vec<OsString>,
}

impl Args {
    /// Whether it prints slots, which have a form as JSON.
    pub(crate) fn lists(&self) -> bool {
        self.list
    }

    /// The slots of the key, with the options that a look does not need.
    fn once(&self, opened: &OpenedStore) -> Result<Once, Failure> {
        let mut once = opened.locks.once(&self.key);
        if let Some(keep) = self.keep {
            once = once.keep(keep);
        }
        if let Some(retries) = self.retry {
            once = once.attempts(retries.saturating_add(1));
        }
        once = match (&self.slot, self.every, &self.cron) {
            (Some(name), _, _) => once.slot(name.as_str()),
            (_, Some(period), _) => once.every(period),
            (_, _, Some(cron)) => once.at(cron.last()?),
            (None, None, None) => once,
        };
        Ok(once)
    }
}

pub(crate) fn once(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    if args.list {
        return slots::list(at, json, &args.key);
    }
    if args.reset_all {
        return slots::reset_all(at, &args.key);
    }
    if let Some(slot) = &args.reset {
        return slots::reset(at, &args.key, slot);
    }
    look_up::check(&args.command[0])?;
    let url = at.url()?;
    let wait = if args.no_wait { Some(Duration::ZERO) } else { args.wait };
    let acquisition = Acquisition {
        key: &args.key,
        mode: LockMode::Exclusive,
        ttl: args.ttl,
        budget: RetryBudget::new(wait, at.quiet),
        note: args.note.as_deref(),
        beside: None,
    };
    acquisition.check()?;
    let mut signals = Signals::install()?;
    let opened = open(at, &url, &acquisition.budget, &mut signals)?;
    let outcome =
        Job { at, args, acquisition: &acquisition, url: &url, opened: &opened }.run(&mut signals);
    close(&mut signals, &opened.locks, &outcome);
    outcome
}

struct Job<'a> {
    at: &'a Address,
    args: &'a Args,
    acquisition: &'a Acquisition<'a>,
    url: &'a str,
    opened: &'a OpenedStore,
}

impl Job<'_> {
    /// Runs the command, unless the slot is over.
    fn run(&self, signals: &mut Signals) -> Result<u8, Failure> {
        let Self { args, acquisition, opened, .. } = self;
        // A wait must not move the run into the next slot.
        let once = args.once(opened)?.fixed()?;
        let slot = once.slot_name()?;
        let over = acquisition.budget.outlast(signals, |signals| self.ask(signals, once.over()))?;
        if let Some(run) = over {
            return self.is_over(&run);
        }
        if !args.no_wait {
            nested::refuse(signals, &opened.locks, &args.key, acquisition.mode.share()?)?;
        }
        let spare = (!args.no_wait).then(spare_keeper).transpose()?;
        let held = acquisition
            .budget
            .outlast(signals, |signals| acquisition.acquire(signals, &opened.locks));
        let held = held.map_err(|failure| failure.with_busy_code(args.busy_code))?;
        // The limit of the wait is that of the lock, which is held now.
        let started = match signals.until(once.start(&held), |_| None)? {
            Ok(started) => started.map_err(Failure::from),
            Err(signal) => Err(Failure::asked(signal)),
        };
        let attempt = match started {
            Ok(SlotStart::Begun(attempt)) => attempt,
            Ok(SlotStart::Over(run)) => {
                held.release(signals)?;
                return self.is_over(&run);
            }
            Err(failure) => {
                held.let_go(signals);
                return Err(failure);
            }
        };
        say_if(args.verbose, || {
            let (key, slot) = (quoted(&args.key), printable(&slot).into_owned());
            let (waited, token) = (brief(acquisition.budget.elapsed()), held.number());
            format!("the slot {slot} of {key} runs after {waited}, with token {token}")
        });
        let work = Work {
            command: &args.command,
            url: self.url,
            kill_after: args.kill_after,
            on_lost: OnLost::Stop,
            lifeline: opened.lifeline.as_ref(),
            variable: Some((SLOT, &slot)),
            stops_at_signals: false,
        };
        match supervise(signals, spare, &held, &work)? {
            Outcome::Done(reason, _keeper) => {
                say_if(args.verbose, || reason.to_string());
                let ended = Self::end(signals, attempt, &held, reason);
                held.release(signals)?;
                ended?;
                Failure::like(reason)
            }
            Outcome::NeverRan { asked } => {
                held.release(signals)?;
                Err(Failure::asked(asked))
            }
            Outcome::Lost { asked: _ } => {
                drop(held);
                Err(Failure::silent(LOST))
            }
        }
    }

    /// Writes the end of the run into the store, before the lock is released.
    fn end(
        signals: &mut Signals,
        attempt: Box<SlotAttempt>,
        held: &LeaseHandle,
        reason: ExitReason,
    ) -> Result<(), Failure> {
        let slot = printable(attempt.slot()).into_owned();
        let succeeded = matches!(reason, ExitReason::Exited(0));
        let write =
            async { if succeeded { attempt.succeeded().await } else { attempt.failed().await } };
        let written = match signals.until(held.run(write), |_| None)? {
            Ok(written) => written.and_then(|written| written),
            Err(signal) => {
                say(&format!("interrupted before the end of the slot {slot} was in the store"));
                return Err(Failure::asked(signal));
            }
        };
        match written {
            Ok(()) => Ok(()),
            // It counts as begun, and runs again just the same.
            Err(error) if !succeeded => {
                say(&format!("the failure of the slot {slot} is not in the store: {error}"));
                Ok(())
            }
            Err(error) => {
                let code = if error.is_lost() { LOST } else { UNREACHABLE };
                Err(Failure::new(
                    code,
                    format!("the command succeeded, and the slot {slot} may run again: {error}"),
                ))
            }
        }
    }

    /// Reports a slot that does not run again.
    fn is_over(&self, run: &SlotRun) -> Result<u8, Failure> {
        let (key, slot) = (quoted(&self.args.key), printable(&run.slot));
        let (at, owner) = (slots::time(run.at), printable(&run.owner));
        if run.state == SlotState::Succeeded {
            if !self.at.quiet {
                say(&format!("the slot {slot} of {key} succeeded at {at}, run by {owner}"));
            }
            return Ok(0);
        }
        let runs = if run.attempts == 1 { "run" } else { "runs" };
        let reset = "forget it with --reset to run it again";
        Err(Failure::new(
            NOTHING,
            format!(
                "the slot {slot} of {key} is given up after {} {runs}, the last by {owner} at {at}: {reset}",
                run.attempts
            ),
        ))
    }

    /// Asks the store, unless a signal asks this process to end.
    fn ask<T>(
        &self,
        signals: &mut Signals,
        request: impl Future<Output = tenure::Result<T>>,
    ) -> Result<T, Failure> {
        if let Some(answer) = self.acquisition.budget.within(signals, request)? {
            return Ok(answer?);
        }
        let store = &self.opened.locks.guarantees().store;
        let waited = brief(self.acquisition.budget.elapsed());
        Err(Failure::new(UNREACHABLE, format!("{store} does not answer within {waited}")))
    }
}
