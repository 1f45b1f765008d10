//! `tenure break`: removes a ticket from its line.

use std::thread;
use std::time::{Duration, Instant};

use tenure::blocking::block_on;
use tenure::inspect::{LeaveOutcome, LineEntry, TicketId, TicketState};
use tenure::{ErrorKind, Locks};
use tenure_kit::duration::{self, brief};

use super::json::Object;
use super::short_id::{IdPrefix, short};
use crate::claims::LEAVE_MAX;
use crate::failure::{BUSY, Failure, NOTHING, REFUSED, answer, say};
use crate::owner::OwnerParts;
use crate::screen::{printable, quoted};
use crate::store::Address;

/// Added to a duration that is shown in whole seconds, so that it is not too short.
const ROUNDED_OFF: Duration = Duration::from_secs(1);

/// Removes a ticket from a line.
///
/// A waiter is out at once. A holder is asked to leave: it ends its work and leaves, at the latest
/// when its lease in the store ends, and the next waiter is served only after that. So a break of
/// `tenure run`, or of a program that checks its lock, never makes two holders. A claim (`tenure
/// take`) has no program that could be stopped: all its locks are released when one of its commands
/// has reported the loss, or after 30 seconds, and its script may still work then. The default is
/// the only holder. If there are several holders, give --ticket or --holder.
///
/// Without --wait, tenure exits as soon as it has asked the holder; with --wait, when the holder is
/// out.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure break nightly --wait
  tenure break nightly --wait 30s || echo 'it does not stop'
  tenure line nightly             shows the id of every ticket
  tenure break nightly --ticket 0123abcd")]
pub(crate) struct Args {
    /// The key of the line.
    key: String,
    /// The ticket with this id. The first 8 digits are enough if they are unique in the line.
    ///
    /// `tenure line` and `tenure ps` show the first eight digits, which are enough unless several
    /// ids have them. The whole id, of 32 digits, also breaks a ticket of a line that cannot be
    /// read.
    #[arg(long, value_name = "ID", conflicts_with = "holder", value_parser = IdPrefix::parse)]
    ticket: Option<IdPrefix>,
    /// All holders.
    #[arg(long)]
    holder: bool,
    /// Waits until the ticket is out, for this time at most.
    ///
    /// If the ticket is not out by then, tenure exits with 75. A number without a unit is in
    /// seconds.
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse, num_args = 0..=1,
        default_missing_value = FOR_EVER, conflicts_with_all = ["force", "force_after"])]
    wait: Option<Duration>,
    /// Waits for this time, and then removes the ticket by force.
    ///
    /// WARNING: if the owner still works, there are two holders, as with --force.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "force")]
    force_after: Option<Duration>,
    /// Removes the ticket at once, without asking its owner.
    ///
    /// WARNING: if the owner still works, there are two holders. Only for an owner that is known to
    /// be gone or stuck.
    #[arg(long)]
    force: bool,
}

/// The longest duration that can be written.
const FOR_EVER: &str = "36500d";
/// Poll interval of `--wait`.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(crate) fn break_ticket(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    tenure::Key::new(&args.key)?;
    let locks = at.look(NOTHING)?;
    let line = match block_on(locks.line(&args.key)) {
        Err(error) if error.kind() == ErrorKind::Rejected => {
            return args.break_unseen(&locks, json, &error);
        }
        line => line?,
    };
    let mut asked = Vec::new();
    for ticket in args.choose(&line)? {
        let left = match args.take_out(&locks, ticket.id, args.force) {
            Err(error) if !args.force && error.kind() == ErrorKind::Rejected => {
                let unasked =
                    format!("{} cannot be asked to leave: {error}", printable(&ticket.owner));
                if args.force_after.is_none() {
                    let hint = "--force may remove its ticket without asking";
                    return Err(Failure::new(REFUSED, format!("{unasked}; {hint}")));
                }
                // The ticket is removed after the time of `--force-after`.
                say(&unasked);
                asked.push(ticket);
                continue;
            }
            left => left?,
        };
        if left == LeaveOutcome::Requested && args.waits() {
            if !json {
                answer(sentence(&ticket, ticket.life, left, false, false))?;
            }
            asked.push(ticket);
            continue;
        }
        let text = if json {
            object(&ticket, left, left != LeaveOutcome::Requested)
        } else {
            sentence(&ticket, ticket.life, left, args.force, has_waiter(&line))
        };
        answer(text)?;
    }
    args.see_out(&locks, json, asked)
}

impl Args {
    /// Breaks a ticket of a line that cannot be read, by its whole id.
    fn break_unseen(
        &self,
        locks: &Locks,
        json: bool,
        error: &tenure::Error,
    ) -> Result<u8, Failure> {
        let Some(id) = self.ticket.as_ref().and_then(IdPrefix::whole) else {
            let hint = "to break a ticket of it, name the ticket with --ticket and its whole id";
            return Err(Failure::new(REFUSED, format!("{error}; {hint}")));
        };
        let left = self.take_out(locks, id, self.force)?;
        if left == LeaveOutcome::Absent {
            return Err(self.no_ticket(&id.to_string()));
        }
        let is_out = left != LeaveOutcome::Requested;
        answer(if json {
            let object = Object::new().text("key", &self.key).text("id", &id.to_string());
            object.text("was", was(left)).plain("out", is_out).line()
        } else if is_out {
            format!("ticket {id} is out\n")
        } else {
            format!("ticket {id} was asked to leave\n")
        })?;
        if self.waits() {
            return Err(Failure::new(REFUSED, "cannot wait in a line that cannot be read"));
        }
        Ok(0)
    }

    fn no_ticket(&self, id: &str) -> Failure {
        let key = quoted(&self.key);
        Failure::new(NOTHING, format!("there is no ticket {id} in the line of {key}"))
    }

    fn waits(&self) -> bool {
        self.wait.is_some() || self.force_after.is_some()
    }

    /// Waits until the asked holders are out, or removes them.
    fn see_out(&self, locks: &Locks, json: bool, mut asked: Vec<LineEntry>) -> Result<u8, Failure> {
        let limit = self.force_after.or(self.wait).unwrap_or_default();
        let began = Instant::now();
        while !asked.is_empty() {
            let line = block_on(locks.line(&self.key))?;
            let (stays, out): (Vec<_>, Vec<_>) = asked
                .into_iter()
                .partition(|ticket| line.iter().any(|there| there.id == ticket.id));
            for ticket in out {
                answer(if json {
                    object(&ticket, LeaveOutcome::Requested, true)
                } else {
                    is_out(&ticket)
                })?;
            }
            asked = stays;
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return self.give_up(locks, json, &asked, has_waiter(&line));
            }
            if !asked.is_empty() {
                thread::sleep(LOOK_EVERY.min(left));
            }
        }
        Ok(0)
    }

    fn give_up(
        &self,
        locks: &Locks,
        json: bool,
        asked: &[LineEntry],
        next: bool,
    ) -> Result<u8, Failure> {
        for ticket in asked {
            if self.force_after.is_none() {
                if json {
                    answer(object(ticket, LeaveOutcome::Requested, false))?;
                }
                continue;
            }
            let left = self.take_out(locks, ticket.id, true)?;
            answer(if json {
                object(ticket, left, true)
            } else {
                sentence(ticket, None, left, true, next)
            })?;
        }
        if asked.is_empty() || self.force_after.is_some() {
            return Ok(0);
        }
        let owners: Vec<_> = asked.iter().map(|ticket| &*ticket.owner).collect();
        let (owners, key) = (owners.join(", "), quoted(&self.key));
        Err(Failure::new(BUSY, format!("{owners} was asked to leave and still holds {key}")))
    }

    fn choose(&self, line: &[LineEntry]) -> Result<Vec<LineEntry>, Failure> {
        let chosen = match &self.ticket {
            Some(wanted) => match wanted.find(&self.key, line)? {
                Some(ticket) => vec![ticket.clone()],
                None => return Err(self.no_ticket(wanted.digits())),
            },
            None if self.holder => holders(line),
            None => self.only_one(line)?,
        };
        if chosen.is_empty() {
            return Err(Failure::new(NOTHING, format!("{} has no holder", quoted(&self.key))));
        }
        Ok(chosen)
    }

    /// The only holder, or the only ticket in the line.
    fn only_one(&self, line: &[LineEntry]) -> Result<Vec<LineEntry>, Failure> {
        let holders = holders(line);
        if holders.len() == 1 || line.len() <= 1 {
            return Ok(if holders.is_empty() { line.to_vec() } else { holders });
        }
        let key = quoted(&self.key);
        Err(Failure::usage(match holders.len() {
            0 => format!(
                "{key} has no holder and {} waiters: add --ticket with the id that `line` shows",
                line.len()
            ),
            count => format!(
                "{key} has {count} holders: add --holder to break all of them, or --ticket with the id \
                 that `line` shows"
            ),
        }))
    }

    fn take_out(&self, locks: &Locks, id: TicketId, force: bool) -> tenure::Result<LeaveOutcome> {
        block_on(async {
            if force {
                locks.force_unlock(&self.key, id).await
            } else {
                locks.break_ticket(&self.key, id).await
            }
        })
    }
}

fn holders(line: &[LineEntry]) -> Vec<LineEntry> {
    line.iter().filter(|ticket| ticket.state == TicketState::Holding).cloned().collect()
}

fn has_waiter(line: &[LineEntry]) -> bool {
    line.iter().any(|ticket| ticket.state == TicketState::Waiting)
}

/// Reports the outcome for a ticket; `next`: a waiter is behind it.
fn sentence(
    ticket: &LineEntry,
    life: Option<Duration>,
    left: LeaveOutcome,
    force: bool,
    next: bool,
) -> String {
    let (id, owner) = (short(ticket.id), printable(&ticket.owner));
    let (served, then) = if next {
        (", and the next is served", "there are two holders")
    } else {
        ("", "it works without the lock")
    };
    match left {
        LeaveOutcome::Requested => {
            let latest = |time: Duration| format!(", at the latest in {}", brief(time));
            if OwnerParts::is_claim(&ticket.owner) {
                let latest = latest(LEAVE_MAX);
                return format!(
                    "{owner} was asked to leave: it is a claim, so no program is stopped; ticket {id} is out \
                     as soon as a command of the claim has reported the loss{latest}\n"
                );
            }
            let latest = life.map_or(String::new(), |life| latest(life + ROUNDED_OFF));
            format!(
                "{owner} was asked to leave: ticket {id} is out as soon as its work has stopped{latest}\n"
            )
        }
        LeaveOutcome::Holding if force => {
            format!("ticket {id} of {owner} is out{served}; if {owner} still works, {then}\n")
        }
        LeaveOutcome::Holding => format!("ticket {id} of {owner} is out{served}\n"),
        LeaveOutcome::Waiting => format!("ticket {id} of {owner} was waiting, and is out\n"),
        LeaveOutcome::Absent | LeaveOutcome::Unsure => {
            format!("ticket {id} of {owner} had already left\n")
        }
    }
}

fn is_out(ticket: &LineEntry) -> String {
    format!("ticket {} of {} is out\n", short(ticket.id), printable(&ticket.owner))
}

fn object(ticket: &LineEntry, left: LeaveOutcome, is_out: bool) -> String {
    let object = Object::new().text("key", ticket.key.as_str()).text("id", &ticket.id.to_string());
    object.text("was", was(left)).plain("out", is_out).line()
}

/// The state of a ticket before the break, as `was` in JSON.
fn was(left: LeaveOutcome) -> &'static str {
    match left {
        LeaveOutcome::Requested => "told",
        LeaveOutcome::Holding => "holding",
        LeaveOutcome::Waiting => "waiting",
        LeaveOutcome::Absent | LeaveOutcome::Unsure => "absent",
    }
}
