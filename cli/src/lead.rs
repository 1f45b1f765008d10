//! `tenure lead`: a command runs wherever its election is won.

use std::ffi::OsString;
use std::time::Duration;

use crate::claim::{Claim, Share};
use crate::duration;
use crate::failure::{Failure, say};
use crate::look_up;
use crate::run::open;
use crate::screen::quoted;
use crate::store::Address;
use crate::supervise::{End, Work, ended_by, supervise};

/// Runs a command while leading, and campaigns again whenever the lead is lost.
///
/// Start it on several machines: the command runs on one of them at a time. If that one loses the lead, its
/// command is ended before another one's begins, and it stands for election again. If the command ends by
/// itself, so does tenure, with the command's exit code, and the next in line leads.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  tenure lead scheduler --note \"$HOSTNAME:8080\" -- ./scheduler

Who leads is the front of the line:
  tenure line scheduler")]
pub(crate) struct Args {
    /// What is led.
    key: String,
    /// What others see beside it in the line: an address, say.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// How long the lead outlives a crash of this machine, where the store keeps leases [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// How long the command may take to end when the lead is lost.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "5s")]
    kill_after: Duration,
    /// The command, and its own words.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn lead(at: &Address, args: &Args) -> Result<u8, Failure> {
    look_up::check(&args.command[0])?;
    let url = at.url()?;
    let (mut bell, locks) = open(&url)?;
    let claim = Claim {
        key: &args.key,
        share: Share::Office,
        ttl: args.ttl,
        wait: None,
        note: args.note.as_deref(),
    };
    let (kill_after, ttl) = (args.kill_after, claim.ttl());
    let work = Work { command: &args.command, url: &url, kill_after, ttl };
    loop {
        let seat = claim.acquire(&mut bell, &locks)?;
        match supervise(&mut bell, &seat, &work)? {
            End::Done(code) => return seat.release(&mut bell).map(|()| code),
            End::Lost { asked } => {
                // Nothing of the command is left: now another may lead.
                let _as_was_said = seat.release(&mut bell);
                if let Some(signal) = asked {
                    return Err(Failure::silent(ended_by(signal)));
                }
                say(&format!("campaigning for {} again", quoted(&args.key)));
            }
        }
    }
}
