//! `tenure run`: a command runs under a lock.

use std::ffi::OsString;
use std::time::Duration;

use crate::bell::Bell;
use crate::claim::{Claim, Share};
use crate::duration;
use crate::failure::{Failure, LOST};
use crate::look_up;
use crate::nested;
use crate::outage::Patience;
use crate::store::{self, Address, Opened};
use crate::supervise::{End, Work, supervise};

/// Runs a command under a lock, and exits with the command's exit code.
///
/// Waits in line until the lock is free, and says once who holds it if that takes longer than ten seconds. The
/// command finds TENURE_KEY, TENURE_TOKEN and TENURE_ON in its environment; the token is higher than that of
/// every run before. Signals go to the command and all it has started. If the lock is lost, all of that gets
/// TERM and then KILL, and tenure exits with 79.
///
/// Where the store keeps leases, as Redis does, all of it is gone before the lease ends: TERM comes --kill-after
/// before that, or a sixth of the --ttl if that is less. If tenure itself is killed or stopped, its watchdog
/// kills in its place.
///
/// TENURE_ON is the whole URL, with the password if it has one, so that the command can ask the same store:
/// `env -u TENURE_ON CMD` keeps it from a command that need not know. It is in no argument of any process that
/// tenure starts.
///
/// A key is a lock, which --shared shares with others who do, or a number of permits (--permits): everybody who
/// uses it must agree on which, and who does not is refused.
///
/// What the command leaves running in the background when it ends runs on without the lock.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown, reason = "it is a page for terminals")]
#[command(after_help = "\
Examples:
  tenure run nightly -- ./backup.sh
  tenure run --no-wait reports -- make report || echo 'somebody is at it'
  tenure run --permits 1/4 downloads -- curl -O https://example.org/big")]
pub(crate) struct Args {
    /// What is locked.
    key: String,
    /// Shares it with others who do, and keeps out --exclusive.
    #[arg(long, conflicts_with_all = ["exclusive", "permits"])]
    shared: bool,
    /// Keeps out all others, --shared ones too; so does whoever says nothing.
    #[arg(short = 'x', visible_short_alias = 'e', long, conflicts_with = "permits")]
    exclusive: bool,
    /// Takes K of N permits.
    #[arg(long, value_name = "K/N", value_parser = permits)]
    permits: Option<(u32, u32)>,
    /// How long the lock outlives a crash of this machine, where the store keeps leases [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// Waits for so long, and then gives up with exit code 75 [default: for ever]. Meanwhile a store that cannot
    /// be reached is tried again, at last with exit code 69; without --wait that ends it at once.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "no_wait")]
    wait: Option<Duration>,
    /// Gives up at once with exit code 75 if it is busy.
    #[arg(long)]
    no_wait: bool,
    /// What others see beside it in the line.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// How long the command may take to end when the lock is lost.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "5s")]
    kill_after: Duration,
    /// The command, and its own words.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(at: &Address, args: &Args) -> Result<u8, Failure> {
    look_up::check(&args.command[0])?;
    let url = at.url()?;
    let wait = if args.no_wait { Some(Duration::ZERO) } else { args.wait };
    let patience = Patience::new(wait, at.quiet);
    let (mut bell, opened) = open(at, &url, &patience)?;
    let locks = &opened.locks;
    let claim = Claim {
        key: &args.key,
        share: args.share(),
        ttl: args.ttl,
        patience,
        note: args.note.as_deref(),
    };
    if wait != Some(Duration::ZERO) {
        nested::refuse(&mut bell, locks, &args.key, claim.share.of_ticket()?)?;
    }
    let held = patience.outlast(&mut bell, |bell| claim.acquire(bell, locks))?;
    let (kill_after, ttl) = (args.kill_after, claim.ttl());
    let lifeline = opened.lifeline.as_ref();
    let work = Work { command: &args.command, url: &url, kill_after, ttl, lifeline };
    match supervise(&mut bell, &held, &work)? {
        End::Done(ending, _burial) => {
            held.release(&mut bell)?;
            Failure::like(ending)
        }
        End::Lost { asked: _ } => {
            // Nothing of the command is left: now another may begin.
            held.let_go(&mut bell);
            Err(Failure::silent(LOST))
        }
    }
}

/// The bell of this process, and the store that it listens for.
pub(crate) fn open(
    at: &Address,
    url: &str,
    patience: &Patience,
) -> Result<(Bell, Opened), Failure> {
    let mut bell = Bell::hang()?;
    let opened =
        patience.outlast(&mut bell, |bell| match bell.until(store::open(url), |_| None)? {
            Ok(opened) => Ok(opened?.owned_by(&owner())?),
            Err(signal) => Err(Failure::asked(signal)),
        })?;
    at.warn(&opened.locks);
    Ok((bell, opened))
}

/// What others see in the line: the process by which to find it.
pub(crate) fn owner() -> String {
    let machine = rustix::system::uname();
    format!("tenure[{}]@{}", std::process::id(), machine.nodename().to_string_lossy())
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
    if of > tenure::PERMITS_MAX {
        return Err(format!("there can be at most {} permits", tenure::PERMITS_MAX));
    }
    tenure::Share::new(take, of).map_err(|error| error.to_string())?;
    Ok((take, of))
}
