//! `tenure run`: a command runs under a lock.

use std::ffi::OsString;
use std::time::Duration;

use tenure_kit::duration::{self, brief};
use tenure_kit::registry::OpenedStore;

use crate::child::Idle;
use crate::claim::{Claim, Share};
use crate::failure::{Failure, LOST, UNREACHABLE, tell};
use crate::look_up;
use crate::nested;
use crate::outage::Patience;
use crate::screen::quoted;
use crate::signals::Signals;
use crate::store::{Address, close, whom};
use crate::supervise::{End, OnLost, Work, keeper, supervise};

/// Runs a command under a lock, and exits as the command does.
///
/// Waits in line until the lock is free, and says once who holds it if that takes longer than ten seconds. The
/// command finds TENURE_KEY, TENURE_TOKEN and TENURE_ON in its environment; the token is higher than that of
/// every run before. TENURE_HELD lists the locks of all runs around it, for tenure itself. Signals go to the
/// command's process group. If the lock is lost, all of that gets TERM and then KILL, and tenure exits
/// with 79.
///
/// Between tenure and the command stands its keeper, which `ps` shows as lock-keeper. It is there while tenure
/// waits, too, but for --no-wait, so that the command begins as soon as the lock is held. If tenure dies, even by
/// `kill -9`, the keeper kills all that the command has started, in other process groups and sessions too, and only
/// then is the lock free. A process that may not be killed, being another user's, keeps the lock, and is named. If
/// tenure and the keeper are killed in one go, a file lock stays until the command has ended; a lease or a session
/// ends although the command runs on.
///
/// Where the store keeps leases, as Redis does, all of it is gone before the lease ends: TERM comes --kill-after
/// before that, or a sixth of the lease if that is less. If tenure itself is killed or stopped, the keeper kills in
/// its place.
///
/// TENURE_ON is the whole URL, with the password if it has one, so that the command can ask the same store:
/// `env -u TENURE_ON CMD` keeps it from a command that need not know. It is in no argument of any process that
/// tenure starts.
///
/// A key is a lock, which --shared shares with others who do, or a number of permits (--permits): everybody who
/// uses it must agree on which, and who does not is refused. A run inside a run that holds the same key is refused
/// where it would wait for itself: shares and permits fit together as long as nobody waits between them.
///
/// What the command leaves running in the background when it ends runs on without the lock. Signals that were ignored
/// when tenure was started stay ignored for the command, but for CHLD and PIPE: those are as by default.
///
/// The short options are those of flock(1).
#[derive(clap::Args)]
#[allow(clippy::doc_markdown, reason = "it is a page for terminals")]
#[allow(clippy::struct_excessive_bools, reason = "each is a word of the command line")]
#[command(after_help = "Example:\n  tenure run nightly -- ./backup.sh")]
#[command(after_long_help = "\
Examples:
  tenure run nightly -- ./backup.sh
  tenure run -n reports -- make report || echo 'somebody is at it'
  tenure run --permits 1/4 downloads -- curl -O https://example.org/big")]
pub(crate) struct Args {
    /// What is locked.
    ///
    /// A key that begins with `-` stands behind `--`: `tenure run -- KEY -- CMD`.
    #[arg(hide_short_help = true)]
    key: String,
    /// Shares it with others who do.
    #[arg(short, long, conflicts_with_all = ["exclusive", "permits"])]
    shared: bool,
    /// Keeps out all others, as is the default.
    #[arg(short = 'x', short_alias = 'e', long, conflicts_with = "permits")]
    exclusive: bool,
    /// Takes K of N permits.
    #[arg(long, value_name = "K/N", value_parser = permits)]
    permits: Option<(u32, u32)>,
    /// Exits with 75 at once if it is busy.
    #[arg(short, long, aliases = ["nonblock", "nb"])]
    no_wait: bool,
    /// Exits with 75 after so long [default: never].
    ///
    /// Meanwhile a store that cannot be reached is tried again, at last with exit code 69. Without --wait that ends
    /// it at once, or, where it stands in line already, when its place there has ended. A store that does not answer
    /// may take 2 seconds beyond TIME. A number without a unit is one of seconds.
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse, alias = "timeout",
        conflicts_with = "no_wait")]
    wait: Option<Duration>,
    /// Exits with this in the place of 75.
    #[arg(short = 'E', long, value_name = "CODE", alias = "conflict-exit-code")]
    busy_code: Option<u8>,
    /// What others see beside it in the line.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// How long a lease outlives a crash [default: 30s].
    ///
    /// Only where the store keeps leases: the locks of a file store end with their keepers. A store may
    /// grant another time: etcd and ZooKeeper have a shortest lease of a few seconds. `tenure line` shows
    /// what is left of it.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// What the loss of the lock means: stop or warn.
    ///
    /// With `warn`, the command is never killed: a loss is told, once, and tenure exits with 79 when the command has
    /// ended. Others may work beside it from then on. If tenure is killed, the keeper waits for the command.
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "stop",
        hide_possible_values = true,
        hide_default_value = true
    )]
    on_lost: OnLost,
    /// The time to end in on a loss [default: 5s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "5s", hide_default_value = true)]
    kill_after: Duration,
    /// Says when it is held, and how the command ended.
    #[arg(short, long)]
    verbose: bool,
    /// The command, and its own words.
    #[arg(last = true, required = true, value_name = "CMD", hide_short_help = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(at: &Address, args: &Args) -> Result<u8, Failure> {
    look_up::check(&args.command[0])?;
    let url = at.url()?;
    let wait = if args.no_wait { Some(Duration::ZERO) } else { args.wait };
    let claim = Claim {
        key: &args.key,
        share: args.share(),
        ttl: args.ttl,
        patience: Patience::new(wait, at.quiet),
        note: args.note.as_deref(),
    };
    claim.check()?;
    // Who does not wait may get nothing, and ask again and again.
    let idle = (!args.no_wait).then(keeper).transpose()?;
    let mut signals = Signals::hear()?;
    let opened = open(at, &url, &claim.patience, &mut signals)?;
    let locks = &opened.locks;
    if wait != Some(Duration::ZERO) {
        nested::refuse(&mut signals, locks, &args.key, claim.share.of_ticket()?)?;
    }
    let outcome = hold(&url, args, &claim, &mut signals, idle, &opened);
    close(&mut signals, locks, &outcome);
    outcome
}

/// Runs the command as soon as the lock is held.
fn hold(
    url: &str,
    args: &Args,
    claim: &Claim<'_>,
    signals: &mut Signals,
    idle: Option<Idle>,
    opened: &OpenedStore,
) -> Result<u8, Failure> {
    let patience = &claim.patience;
    let held = patience.outlast(signals, |signals| claim.acquire(signals, &opened.locks));
    let held = held.map_err(|failure| failure.with_busy_code(args.busy_code))?;
    tell(args.verbose, || {
        let (key, token) = (quoted(&args.key), held.token());
        let (store, waited) = (held.store(), brief(patience.elapsed()));
        format!("{key} is held in {store} after {waited}, with token {token}")
    });
    let work = Work {
        command: &args.command,
        url,
        kill_after: args.kill_after,
        on_lost: args.on_lost,
        lifeline: opened.lifeline.as_ref(),
    };
    match supervise(signals, idle, &held, &work)? {
        End::Done(ending, _burial) => {
            tell(args.verbose, || ending.to_string());
            held.release(signals)?;
            Failure::like(ending)
        }
        End::NeverRan { asked } => {
            held.release(signals)?;
            Err(Failure::asked(asked))
        }
        End::Lost { asked: _ } => {
            // Nothing of the command is left: now another may begin. Closing the store waits for that, and only once for one that
            // does not answer.
            drop(held);
            Err(Failure::silent(LOST))
        }
    }
}

/// The store.
pub(crate) fn open(
    at: &Address,
    url: &str,
    patience: &Patience,
    signals: &mut Signals,
) -> Result<OpenedStore, Failure> {
    let mut last = None;
    let opened = patience.outlast(signals, |signals| {
        if let Some(opened) = patience.within(signals, at.open_at(url))? {
            return opened.inspect_err(|failure| last = Some(failure.sentence().to_owned()));
        }
        // The time was over in the middle of an attempt: an attempt that ended knows more.
        let sentence = last.take().unwrap_or_else(|| unopened(url, patience.elapsed()));
        Err(Failure::new(UNREACHABLE, sentence))
    })?;
    at.warn(&opened.locks);
    Ok(opened)
}

/// The sentence for a store that was not open when the time to wait was over.
fn unopened(url: &str, waited: Duration) -> String {
    let (store, waited) = (whom(url), brief(waited));
    format!(
        "no connection to {store} came about within {waited}: is it running? --wait waits longer"
    )
}

impl Args {
    fn share(&self) -> Share {
        match self.permits {
            Some((take, of)) => Share::Permits(take, of),
            None if self.shared => Share::Shared,
            None => Share::Alone,
        }
    }
}

fn permits(text: &str) -> Result<(u32, u32), String> {
    let wrong = || "it is written K/N, as in 2/5 for two of five".to_owned();
    let (take, of) = text.split_once('/').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let (take, of) = (number(take)?, number(of)?);
    if !(1..=tenure::PERMITS_MAX).contains(&of) {
        return Err(format!("there can be 1 to {} permits", tenure::PERMITS_MAX));
    }
    tenure::Share::new(take, of).map_err(|error| error.to_string())?;
    Ok((take, of))
}
