//! `tenure lead`: a command runs wherever its election is won.

use std::ffi::OsString;
use std::future::pending;
use std::time::{Duration, Instant};

use tenure::Locks;
use tenure_kit::duration::{self, brief};

use crate::claim::{Claim, Held, Share};
use crate::failure::{BUSY, Failure, UNREACHABLE, say, tell};
use crate::look_up;
use crate::nested;
use crate::outage::Patience;
use crate::run::open;
use crate::screen::quoted;
use crate::signals::Signals;
use crate::store::{Address, close};
use crate::supervise::{End, OnLost, Work, keeper, supervise};

/// Between two campaigns while the store does not answer.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Runs a command while leading, and campaigns again on a loss.
///
/// Start it on several machines: the command runs on one of them at a time. If that one loses the lead, its
/// command is ended before another one's begins, and it stands for election again. If the command ends by
/// itself, so does tenure, with the command's exit code, and the next in line leads. A store that goes away once
/// tenure runs is waited for.
#[derive(clap::Args)]
#[command(after_long_help = "\
Example:
  tenure lead scheduler --note \"$HOSTNAME:8080\" -- ./scheduler

Who leads is the front of the line:
  tenure line scheduler")]
pub(crate) struct Args {
    /// What is led.
    ///
    /// A key that begins with `-` stands behind `--`: `tenure lead -- KEY -- CMD`.
    #[arg(hide_short_help = true)]
    key: String,
    /// What others see beside it in the line: an address, say.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// How long a lease outlives a crash [default: 30s].
    ///
    /// Only where the store keeps leases: a lead in a file store ends with its keeper. A store may
    /// grant another time: etcd and ZooKeeper have a shortest lease of a few seconds. `tenure line` shows
    /// what is left of it.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// How long the command may take to end when the lead is lost.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "5s")]
    kill_after: Duration,
    /// Says when it leads, and how the command ended.
    #[arg(short, long)]
    verbose: bool,
    /// The command, and its own words.
    #[arg(last = true, required = true, value_name = "CMD", hide_short_help = true)]
    command: Vec<OsString>,
}

pub(crate) fn lead(at: &Address, args: &Args) -> Result<u8, Failure> {
    look_up::check(&args.command[0])?;
    let url = at.url()?;
    let claim = Claim {
        key: &args.key,
        share: Share::Office,
        ttl: args.ttl,
        patience: Patience::new(None, at.quiet),
        note: args.note.as_deref(),
    };
    claim.check()?;
    let mut signals = Signals::hear()?;
    let opened = open(at, &url, &claim.patience, &mut signals)?;
    let locks = &opened.locks;
    let kill_after = args.kill_after;
    let lifeline = opened.lifeline.as_ref();
    let (command, on_lost) = (&args.command, OnLost::Stop);
    let work = Work { command, url: &url, kill_after, on_lost, lifeline };
    nested::refuse(&mut signals, locks, &args.key, claim.share.of_ticket()?)?;
    let outcome = serve(&claim, &work, args.verbose, &mut signals, locks);
    close(&mut signals, locks, &outcome);
    outcome
}

/// Leads, again and again, until the command has ended by itself.
fn serve(
    claim: &Claim<'_>,
    work: &Work<'_>,
    verbose: bool,
    signals: &mut Signals,
    locks: &Locks,
) -> Result<u8, Failure> {
    loop {
        let (began, idle) = (Instant::now(), keeper()?);
        let seat = campaign(claim, signals, locks)?;
        tell(verbose, || {
            let (key, token) = (quoted(claim.key), seat.token());
            let (store, waited) = (seat.store(), brief(began.elapsed()));
            format!("{key} is led in {store} after {waited}, with token {token}")
        });
        match supervise(signals, Some(idle), &seat, work)? {
            End::Done(ending, _burial) => {
                tell(verbose, || ending.to_string());
                seat.release(signals)?;
                return Failure::like(ending);
            }
            End::NeverRan { asked } => {
                seat.release(signals)?;
                return Err(Failure::asked(asked));
            }
            // Nothing of the command is left: now another may lead. Closing the store waits for that.
            End::Lost { asked: Some(signal) } => return Err(Failure::asked(signal)),
            End::Lost { asked: None } => {
                seat.let_go(signals);
                say(&format!("campaigning for {} again", quoted(claim.key)));
            }
        }
    }
}

/// Campaigns until it is won, through outages of the store, and however often its ticket is broken.
fn campaign(claim: &Claim<'_>, signals: &mut Signals, locks: &Locks) -> Result<Held, Failure> {
    let mut pause = PAUSE_FIRST;
    loop {
        let began = Instant::now();
        let failure = match claim.acquire(signals, locks) {
            Ok(seat) => return Ok(seat),
            Err(failure) if [BUSY, UNREACHABLE].contains(&failure.code()) => failure,
            Err(failure) => return Err(failure),
        };
        if began.elapsed() > PAUSE_MAX {
            // It stood in line, so the trouble is a new one.
            pause = PAUSE_FIRST;
        }
        if pause == PAUSE_FIRST {
            let key = quoted(claim.key);
            say(&format!("{}; campaigning for {key} goes on", failure.sentence()));
        }
        if let Err(signal) = signals.within(pause, pending::<()>())? {
            return Err(Failure::asked(signal));
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
