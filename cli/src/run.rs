//! `tenure run`: a command runs under a lock.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use tenure_kit::duration::{self, brief};
use tenure_kit::registry::OpenedStore;

use crate::acquisition::{Acquisition, HeldLock, LockMode};
use crate::failure::{Failure, LOST, UNREACHABLE, say_if};
use crate::heir::NamedRuns;
use crate::retry_budget::RetryBudget;
use crate::screen::quoted;
use crate::store::{Address, close, name_of};
use crate::supervisor::signals::Signals;
use crate::supervisor::supervise::{OnLost, Outcome, Work, spare_keeper, supervise};
use crate::supervisor::{SpareKeeper, look_up, nested};

/// Runs a command under a lock, and exits as the command does.
///
/// Waits in line until the lock is free. A wait of more than ten seconds is reported once, with the
/// holder. The command finds TENURE_KEY, TENURE_TOKEN and TENURE_ON in its environment; each run
/// has a higher token than every run before. TENURE_HELD lists the locks of all outer runs, for
/// tenure itself. Signals go to the command's process group. If the lock is lost, the command and
/// its descendants get TERM and then KILL, and tenure exits with 79.
///
/// Between tenure and the command stands its keeper, which ps(1) shows as lock-keeper. It also runs
/// while tenure waits, unless --no-wait is given, so that the command starts as soon as the lock is
/// held. If tenure dies, even by `kill -9`, the keeper kills all processes that the command has
/// started, also in other process groups and sessions. Only then is the lock free. A process of
/// another user, which the keeper may not kill, keeps the lock and is reported. If tenure and the
/// keeper are killed at once, a lock in files stays until the command has ended; a lease or a
/// session ends although the command runs on.
///
/// Where the store keeps leases, all processes are gone before the lease ends: TERM comes
/// --kill-after before that, or a sixth of the lease if that is less. If tenure itself is killed or
/// stopped, the keeper kills instead.
///
/// TENURE_ON is the whole URL, with the password if it has one, so that the command can use the
/// same store. `env -u TENURE_ON CMD` hides it from a command. No argument of a process that tenure
/// starts contains it.
///
/// A key is a lock, which --shared shares with other shared holders, or a number of permits
/// (--permits). All users of a key must use it in the same way; others are refused. A run inside a
/// run that holds the same key is refused if it would wait for itself. Shares and permits fit
/// together as long as no other ticket waits between them.
///
/// Processes that the command leaves running when it ends run on without the lock. Signals that
/// were ignored when tenure was started stay ignored for the command, except CHLD and PIPE, which
/// have their default.
///
/// The short options are those of flock(1).
#[derive(clap::Args)]
#[allow(clippy::doc_markdown, reason = "it is a page for terminals")]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[command(after_help = "Example:\n  tenure run nightly -- ./backup.sh")]
#[command(after_long_help = "\
Examples:
  tenure run nightly -- ./backup.sh
  tenure run -n reports -- make report || echo 'busy or failed'
  tenure run --permits 1/4 downloads -- curl -O https://example.org/big")]
pub(crate) struct Args {
    /// The key to lock.
    ///
    /// A key that begins with `-` stands after `--`: `tenure run -- KEY -- CMD`.
    #[arg(hide_short_help = true)]
    key: String,
    /// Shares the lock with other shared holders.
    #[arg(short, long, conflicts_with_all = ["exclusive", "permits"])]
    shared: bool,
    /// Excludes all others; the default.
    #[arg(short = 'x', short_alias = 'e', long, conflicts_with = "permits")]
    exclusive: bool,
    /// Takes K of N permits.
    ///
    /// TENURE_PERMIT has the numbers of the permits, from 1 to N, which no other holder has: use
    /// them for ports or test databases. It is empty if N is above 1000.
    #[arg(long, value_name = "K/N", value_parser = permits)]
    permits: Option<(u32, u32)>,
    /// Exits with 75 at once if the lock is busy.
    #[arg(short, long, aliases = ["nonblock", "nb"])]
    no_wait: bool,
    /// Exits with 75 after this time [default: never].
    ///
    /// Within this time tenure also retries while the store is unreachable, and then exits with 69.
    /// Without --wait, an unreachable store ends tenure at once; if tenure waits in line already,
    /// it exits when its ticket has expired. A store that does not answer may take 2 seconds beyond
    /// TIME. A number without a unit is in seconds.
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse, alias = "timeout",
        conflicts_with = "no_wait")]
    wait: Option<Duration>,
    /// Exits with this code instead of 75.
    #[arg(short = 'E', long, value_name = "CODE", alias = "conflict-exit-code")]
    busy_code: Option<u8>,
    /// Takes over from an earlier run of this name that has died.
    ///
    /// Where the store keeps leases, a run that is started again need not wait for the end of its
    /// own lease: it removes the ticket of an earlier run of the same NAME and user, if all
    /// processes of that run have certainly ended. Waiters that are already in line are served
    /// first. The processes of a run keep a file in ~/.local/state/tenure-runs locked. While it is
    /// locked, and where it is missing, as on another machine or in a new container, tenure says
    /// that the run may still run, and waits for the end of its lease. Do not use it with `sudo`,
    /// which closes the file and hides the environment: a run that works may look ended.
    /// The owner shows NAME in the place of the command.
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<OsString>,
    /// A text that others see in the line.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// How long a lease outlives a crash [default: 30s].
    ///
    /// Only where the store keeps leases; other locks end with their keepers. A store
    /// may grant another time, for example because it has a minimum of a few seconds. `tenure line`
    /// shows the remaining time.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// Keeps the lock for at least this time.
    ///
    /// If the command ends sooner, tenure keeps the lock until the time is over, and exits then. A
    /// signal ends that wait. For jobs that other machines start a little later; `tenure once` is
    /// exact.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    at_least: Option<Duration>,
    /// The effect of a loss: stop or warn.
    ///
    /// With `warn`, the command is never killed: tenure reports the loss once, and exits with 79
    /// when the command has ended. From then on another holder may run at the same time. If tenure
    /// is killed, the keeper waits for the command.
    #[arg(
        long,
        hide_short_help = true,
        value_name = "WHAT",
        default_value = "stop",
        hide_possible_values = true,
        hide_default_value = true
    )]
    on_lost: OnLost,
    /// The time from TERM to KILL on a loss [default: 5s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "5s",
        hide_default_value = true, hide_short_help = true)]
    kill_after: Duration,
    /// Stops all processes of the command at INT and TERM, as after a loss: for `tenure mcp`.
    #[arg(long, hide = true)]
    stop_at_signals: bool,
    /// Reports the lock and the end of the command.
    #[arg(short, long)]
    verbose: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD", hide_short_help = true)]
    pub(crate) command: Vec<OsString>,
}

/// The variable with the numbers of the permits.
const PERMIT: &str = "TENURE_PERMIT";

pub(crate) fn run(at: &Address, args: &Args) -> Result<u8, Failure> {
    look_up::check(&args.command[0])?;
    let url = at.url()?;
    let wait = if args.no_wait { Some(Duration::ZERO) } else { args.wait };
    let acquisition = Acquisition {
        key: &args.key,
        mode: args.mode(),
        ttl: args.ttl,
        budget: RetryBudget::new(wait, at.quiet),
        note: args.note.as_deref(),
        beside: None,
    };
    acquisition.check()?;
    // With --no-wait the lock may be busy, and scripts may try often: start no keeper beforehand.
    // With --as it inherits a file that is written later.
    let is_early = !args.no_wait && args.name.is_none();
    let spare = is_early.then(spare_keeper).transpose()?;
    let mut signals = Signals::install()?;
    let opened = open(at, &url, &acquisition.budget, &mut signals)?;
    let locks = &opened.locks;
    if wait != Some(Duration::ZERO) {
        nested::refuse(&mut signals, locks, &args.key, acquisition.mode.share()?)?;
    }
    let named = args.name.as_deref();
    let named = named.and_then(|it| NamedRuns::of(it, &args.key, &url, locks, at.quiet));
    if let Some(runs) = &named {
        runs.inherit(&mut signals, locks, args.verbose)?;
    }
    let outcome = hold(&url, args, &acquisition, &mut signals, spare, named.as_ref(), &opened);
    close(&mut signals, locks, &outcome);
    outcome
}

/// Waits for the lock, and runs the command.
fn hold(
    url: &str,
    args: &Args,
    acquisition: &Acquisition<'_>,
    signals: &mut Signals,
    spare: Option<SpareKeeper>,
    named: Option<&NamedRuns<'_>>,
    opened: &OpenedStore,
) -> Result<u8, Failure> {
    let budget = &acquisition.budget;
    let held = budget.outlast(signals, |signals| acquisition.acquire(signals, &opened.locks));
    let held = held.map_err(|failure| failure.with_busy_code(args.busy_code))?;
    say_if(args.verbose, || {
        let (key, token) = (quoted(&args.key), held.number());
        let (store, waited) = (held.store(), brief(budget.elapsed()));
        format!("{key} is held in {store} after {waited}, with token {token}")
    });
    let permits = match held.permits(signals) {
        Ok(permits) => permits,
        Err(failure) => {
            held.let_go(signals);
            return Err(failure);
        }
    };
    let work = Work {
        command: &args.command,
        url,
        kill_after: args.kill_after,
        on_lost: args.on_lost,
        lifeline: opened.lifeline.as_ref(),
        variable: permits.as_deref().map(|numbers| (PERMIT, numbers)),
        stops_at_signals: args.stop_at_signals,
    };
    let _inherited = named.and_then(|runs| runs.begin(held.id()));
    let began = Instant::now();
    match supervise(signals, spare, &held, &work)? {
        Outcome::Done(reason, _keeper) => {
            say_if(args.verbose, || reason.to_string());
            if let Some(time) = args.at_least {
                keep(signals, &held, time.saturating_sub(began.elapsed()))?;
            }
            if permits.is_some_and(|numbers| !numbers.is_empty()) {
                held.return_permits(signals);
            }
            held.release(signals)?;
            Failure::like(reason)
        }
        Outcome::NeverRan { asked } => {
            held.release(signals)?;
            Err(Failure::asked(asked))
        }
        Outcome::Lost { asked: _ } => {
            // All processes of the command are gone, so the next holder may begin. Closing the
            // store waits for the release, with one time limit for both.
            drop(held);
            Err(Failure::silent(LOST))
        }
    }
}

/// Keeps the lock for this time, or until a signal asks this process to end.
fn keep(signals: &mut Signals, held: &HeldLock, time: Duration) -> Result<(), Failure> {
    match signals.within(time, held.lost())? {
        Ok(Some(loss)) => {
            let key = quoted(held.key().as_str());
            let sentence = format!("{key} was lost before --at-least was over: {loss}");
            Err(Failure::new(LOST, sentence))
        }
        Ok(None) | Err(_) => Ok(()),
    }
}

/// Opens the store, and retries within the budget.
pub(crate) fn open(
    at: &Address,
    url: &str,
    budget: &RetryBudget,
    signals: &mut Signals,
) -> Result<OpenedStore, Failure> {
    let mut last = None;
    let opened = budget.outlast(signals, |signals| {
        if let Some(opened) = budget.within(signals, at.open_at(url))? {
            return opened.inspect_err(|failure| last = Some(failure.sentence().to_owned()));
        }
        // Timed out in the middle of an attempt: the error of an earlier attempt is more exact.
        let sentence = last.take().unwrap_or_else(|| unopened(url, budget.elapsed()));
        Err(Failure::new(UNREACHABLE, sentence))
    })?;
    at.warn(&opened.locks);
    Ok(opened)
}

/// The message for a store that was not open in time.
fn unopened(url: &str, waited: Duration) -> String {
    let (store, waited) = (name_of(url), brief(waited));
    format!("no connection to {store} within {waited}: is it running? --wait waits longer")
}

impl Args {
    fn mode(&self) -> LockMode {
        match self.permits {
            Some((take, of)) => LockMode::Permits(take, of),
            None if self.shared => LockMode::Shared,
            None => LockMode::Exclusive,
        }
    }
}

fn permits(text: &str) -> Result<(u32, u32), String> {
    let wrong = || "it is written K/N, as in 2/5 for two of five".to_owned();
    let (take, of) = text.split_once('/').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let (take, of) = (number(take)?, number(of)?);
    if !(1..=tenure::limits::PERMITS_MAX).contains(&of) {
        return Err(format!("there can be 1 to {} permits", tenure::limits::PERMITS_MAX));
    }
    tenure::inspect::Share::new(take, of).map_err(|error| error.to_string())?;
    Ok((take, of))
}
