//! `tenure lead`: a command runs on the machine that wins the election.

use std::ffi::OsString;
use std::future::pending;
use std::time::{Duration, Instant};

use tenure::Locks;
use tenure::engine::Backoff;
use tenure_kit::duration::{self, brief};

use crate::acquisition::{Acquisition, HeldLock, LockMode};
use crate::failure::{BUSY, Failure, UNREACHABLE, say, say_if};
use crate::heir::NamedRuns;
use crate::retry_budget::RetryBudget;
use crate::run::open;
use crate::screen::quoted;
use crate::store::{Address, close};
use crate::supervisor::signals::Signals;
use crate::supervisor::supervise::{OnLost, Outcome, Work, spare_keeper, supervise};
use crate::supervisor::{look_up, nested};

/// First and longest pause between two campaigns while the store does not answer.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Runs a command while leading, and campaigns again on a loss.
///
/// Start it on several machines: the command runs on one of them at a time. If that machine loses
/// the lead, its command is ended before the next leader's begins, and it campaigns again. If the
/// command ends by itself, tenure exits with the command's exit code, and the next in line leads.
/// If the store becomes unreachable, tenure waits for it.
#[derive(clap::Args)]
#[command(after_long_help = "\
Example:
  tenure lead scheduler --note \"$HOSTNAME:8080\" -- ./scheduler

The leader is the front of the line:
  tenure line scheduler")]
pub(crate) struct Args {
    /// The key of the election.
    ///
    /// A key that begins with `-` stands after `--`: `tenure lead -- KEY -- CMD`.
    #[arg(hide_short_help = true)]
    key: String,
    /// Takes over from an earlier candidate of this name that has died.
    ///
    /// As in `tenure run`.
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<OsString>,
    /// A text that others see in the line, for example an address.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// How long a lease outlives a crash [default: 30s].
    ///
    /// Only where the store keeps leases; another lead ends with its keeper. A store may
    /// grant another time, for example because it has a minimum of a few seconds. `tenure line`
    /// shows the remaining time.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// The time from TERM to KILL on a loss.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "5s")]
    kill_after: Duration,
    /// Reports the lead and the end of the command.
    #[arg(short, long)]
    verbose: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD", hide_short_help = true)]
    pub(crate) command: Vec<OsString>,
}

pub(crate) fn lead(at: &Address, args: &Args) -> Result<u8, Failure> {
    look_up::check(&args.command[0])?;
    let url = at.url()?;
    let acquisition = Acquisition {
        key: &args.key,
        mode: LockMode::Leader,
        ttl: args.ttl,
        budget: RetryBudget::new(None, at.quiet),
        note: args.note.as_deref(),
        beside: None,
    };
    acquisition.check()?;
    let mut signals = Signals::install()?;
    let opened = open(at, &url, &acquisition.budget, &mut signals)?;
    let locks = &opened.locks;
    let work = Work {
        command: &args.command,
        url: &url,
        kill_after: args.kill_after,
        on_lost: OnLost::Stop,
        lifeline: opened.lifeline.as_ref(),
        variable: None,
        stops_at_signals: false,
    };
    nested::refuse(&mut signals, locks, &args.key, acquisition.mode.share()?)?;
    let named = args.name.as_deref();
    let named = named.and_then(|it| NamedRuns::of(it, &args.key, &url, locks, at.quiet));
    if let Some(runs) = &named {
        runs.inherit(&mut signals, locks, args.verbose)?;
    }
    let outcome = serve(&acquisition, &work, args.verbose, &mut signals, named.as_ref(), locks);
    close(&mut signals, locks, &outcome);
    outcome
}

/// Leads, again after each loss, until the command has ended by itself.
fn serve(
    acquisition: &Acquisition<'_>,
    work: &Work<'_>,
    verbose: bool,
    signals: &mut Signals,
    named: Option<&NamedRuns<'_>>,
    locks: &Locks,
) -> Result<u8, Failure> {
    loop {
        // With a name it inherits a file that is written later.
        let (began, spare) = (Instant::now(), named.is_none().then(spare_keeper).transpose()?);
        let lead = campaign(acquisition, signals, locks)?;
        let _inherited = named.and_then(|runs| runs.begin(lead.id()));
        say_if(verbose, || {
            let (key, token) = (quoted(acquisition.key), lead.number());
            let (store, waited) = (lead.store(), brief(began.elapsed()));
            format!("{key} is led in {store} after {waited}, with token {token}")
        });
        match supervise(signals, spare, &lead, work)? {
            Outcome::Done(reason, _keeper) => {
                say_if(verbose, || reason.to_string());
                lead.release(signals)?;
                return Failure::like(reason);
            }
            Outcome::NeverRan { asked } => {
                lead.release(signals)?;
                return Err(Failure::asked(asked));
            }
            // All processes of the command are gone, so the next leader may begin. Closing the
            // store waits for the release.
            Outcome::Lost { asked: Some(signal) } => return Err(Failure::asked(signal)),
            Outcome::Lost { asked: None } => {
                lead.let_go(signals);
                say(&format!("campaigning for {} again", quoted(acquisition.key)));
            }
        }
    }
}

/// Campaigns until the election is won, also through outages and breaks.
fn campaign(
    acquisition: &Acquisition<'_>,
    signals: &mut Signals,
    locks: &Locks,
) -> Result<HeldLock, Failure> {
    let (mut backoff, mut reported) = (Backoff::new(PAUSE_FIRST, PAUSE_MAX), false);
    loop {
        let began = Instant::now();
        let failure = match acquisition.acquire(signals, locks) {
            Ok(lead) => return Ok(lead),
            Err(failure) if [BUSY, UNREACHABLE].contains(&failure.code()) => failure,
            Err(failure) => return Err(failure),
        };
        if began.elapsed() > PAUSE_MAX {
            // The ticket was in the line meanwhile, so this failure begins a new outage.
            backoff.reset();
            reported = false;
        }
        if !reported {
            reported = true;
            let key = quoted(acquisition.key);
            say(&format!("{}; campaigning for {key} goes on", failure.sentence()));
        }
        if let Err(signal) = signals.within(backoff.pause(), pending::<()>())? {
            return Err(Failure::asked(signal));
        }
    }
}
