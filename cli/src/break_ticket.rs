//! `tenure break`: takes somebody else's ticket out of its line.

use std::thread;
use std::time::{Duration, Instant};

use tenure::blocking::block_on;
use tenure::{ErrorKind, LeaveOutcome, Locks, Place, Ticket, TicketId, TicketState};
use tenure_kit::duration::{self, brief};

use crate::failure::{BUSY, Failure, REFUSED, answer, say};
use crate::json::Object;
use crate::screen::{printable, quoted};
use crate::store::Address;

/// What a duration that is shown in whole seconds leaves out at most.
const ROUNDED_OFF: Duration = Duration::from_secs(1);
/// There was nothing to break.
const NOTHING: u8 = 1;

/// Takes somebody's ticket out of a line.
///
/// A waiter is out at once. A holder is told: it ends its work and leaves, at the latest when its life in the
/// store is over, and until then nobody else is served. So a break never makes two holders. Without --ticket
/// and --holder it is the one that holds; if several hold, one of the two options says which are meant.
///
/// Without --wait it ends as soon as the holder is told; with --wait, when the holder is out.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  tenure break nightly --wait
  tenure break nightly --wait 30s || echo 'it does not stop'
  tenure line nightly             shows the id of every ticket
  tenure break nightly --ticket 0123abcd")]
pub(crate) struct Args {
    /// In whose line.
    key: String,
    /// The ticket of this id, or whose id alone begins so.
    ///
    /// `tenure line` shows the beginning of each id. The whole id, of 32 digits, also breaks a ticket of a line that
    /// cannot be read.
    #[arg(long, value_name = "ID", conflicts_with = "holder", value_parser = Wanted::parse)]
    ticket: Option<Wanted>,
    /// Every ticket that holds.
    #[arg(long)]
    holder: bool,
    /// Waits until it is out, for so long at most.
    ///
    /// If it is not out by then, tenure exits with 75. A number without a unit is one of seconds.
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse, num_args = 0..=1,
        default_missing_value = FOR_EVER, conflicts_with_all = ["force", "force_after"])]
    wait: Option<Duration>,
    /// Waits, and after that takes it out by force.
    ///
    /// WARNING: if the owner still works, there are two holders, as with --force.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, conflicts_with = "force")]
    force_after: Option<Duration>,
    /// Takes it out at once, whatever its owner does.
    ///
    /// WARNING: if the owner still works, there are two holders. Only for an owner who is known to be gone or stuck.
    #[arg(long)]
    force: bool,
}

/// As long as a duration can be written.
const FOR_EVER: &str = "36500d";
/// How often it is looked whether a ticket is out.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The id of a ticket, or the beginning of one, in lower case.
#[derive(Clone, Debug)]
struct Wanted(String);

impl Wanted {
    fn parse(text: &str) -> Result<Self, String> {
        let digits = text.to_ascii_lowercase();
        let is_id = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if (1..=ID_DIGITS).contains(&digits.len()) && is_id(&digits) {
            return Ok(Self(digits));
        }
        Err(format!("an id is up to {ID_DIGITS} hexadecimal digits: `tenure line KEY` shows it"))
    }

    fn whole(&self) -> Option<TicketId> {
        (self.0.len() == ID_DIGITS).then(|| self.0.parse().ok()).flatten()
    }

    fn is(&self, id: TicketId) -> bool {
        id.to_string().starts_with(&self.0)
    }
}

/// Digits of a whole id.
const ID_DIGITS: usize = 32;

pub(crate) fn break_ticket(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    tenure::Key::new(&args.key)?;
    let locks = at.look(|| Failure::new(NOTHING, format!("nobody holds {}", quoted(&args.key))))?;
    let line = match block_on(locks.line(&args.key)) {
        Err(error) if error.kind() == ErrorKind::Rejected => {
            return args.break_unseen(&locks, json, &error);
        }
        line => line?,
    };
    let mut told = Vec::new();
    for (ticket, place) in args.choose(&line)? {
        let left = match args.take_out(&locks, ticket.id, args.force) {
            Err(error) if !args.force && error.kind() == ErrorKind::Rejected => {
                let untold =
                    format!("{} cannot be told to leave: {error}", printable(&ticket.owner));
                if args.force_after.is_none() {
                    let hint = "--force may take it out all the same, without a word to its owner";
                    return Err(Failure::new(REFUSED, format!("{untold}; {hint}")));
                }
                // It is taken out at its time all the same.
                say(&untold);
                told.push(ticket);
                continue;
            }
            left => left?,
        };
        if left == LeaveOutcome::Requested && args.waits() {
            if !json {
                answer(sentence(&ticket, place.life, left, false, false))?;
            }
            told.push(ticket);
            continue;
        }
        let said = if json {
            object(&ticket, left, left != LeaveOutcome::Requested)
        } else {
            sentence(&ticket, place.life, left, args.force, somebody_waits(&line))
        };
        answer(said)?;
    }
    args.see_out(&locks, json, told)
}

impl Args {
    /// Breaks a ticket of a line that cannot be read: the store is asked for it by its whole id.
    fn break_unseen(
        &self,
        locks: &Locks,
        json: bool,
        error: &tenure::Error,
    ) -> Result<u8, Failure> {
        let Some(id) = self.ticket.as_ref().and_then(Wanted::whole) else {
            let way_out = "name the ticket with --ticket and its whole id";
            return Err(Failure::new(
                REFUSED,
                format!("{error}; to break one all the same, {way_out}"),
            ));
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
            format!("ticket {id} was told to leave\n")
        })?;
        if self.waits() {
            let sentence = "whether it is out cannot be seen in a line that cannot be read";
            return Err(Failure::new(REFUSED, sentence));
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

    /// Waits until those who were told are out, or takes them out.
    fn see_out(&self, locks: &Locks, json: bool, mut told: Vec<Ticket>) -> Result<u8, Failure> {
        let patience = self.force_after.or(self.wait).unwrap_or_default();
        let began = Instant::now();
        while !told.is_empty() {
            let line = block_on(locks.line(&self.key))?;
            let (stays, out): (Vec<_>, Vec<_>) = told
                .into_iter()
                .partition(|ticket| line.iter().any(|(there, _)| there.id == ticket.id));
            for ticket in out {
                answer(if json {
                    object(&ticket, LeaveOutcome::Requested, true)
                } else {
                    is_out(&ticket)
                })?;
            }
            told = stays;
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                return self.give_up(locks, json, &told, somebody_waits(&line));
            }
            if !told.is_empty() {
                thread::sleep(LOOK_EVERY.min(left));
            }
        }
        Ok(0)
    }

    fn give_up(
        &self,
        locks: &Locks,
        json: bool,
        told: &[Ticket],
        next: bool,
    ) -> Result<u8, Failure> {
        for ticket in told {
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
        if told.is_empty() || self.force_after.is_some() {
            return Ok(0);
        }
        let owners: Vec<_> = told.iter().map(|ticket| &*ticket.owner).collect();
        let (owners, key) = (owners.join(", "), quoted(&self.key));
        Err(Failure::new(BUSY, format!("{owners} was told to leave and still holds {key}")))
    }

    fn choose(&self, line: &[(Ticket, Place)]) -> Result<Vec<(Ticket, Place)>, Failure> {
        let key = quoted(&self.key);
        let chosen: Vec<_> = match &self.ticket {
            Some(wanted) => {
                line.iter().filter(|(ticket, _)| wanted.is(ticket.id)).cloned().collect()
            }
            None if self.holder => holders(line),
            None => self.only_one(line)?,
        };
        match (&chosen[..], &self.ticket) {
            ([], Some(wanted)) => Err(self.no_ticket(&wanted.0)),
            ([], None) => Err(Failure::new(NOTHING, format!("nobody holds {key}"))),
            ([_, _, ..], Some(wanted)) => {
                let ids: Vec<_> = chosen.iter().map(|(ticket, _)| ticket.id.to_string()).collect();
                Err(Failure::usage(format!(
                    "{} tickets of {key} begin with {}: write more of the id ({})",
                    ids.len(),
                    wanted.0,
                    ids.join(", ")
                )))
            }
            _ => Ok(chosen),
        }
    }

    /// The one that holds, or that is alone in the line.
    fn only_one(&self, line: &[(Ticket, Place)]) -> Result<Vec<(Ticket, Place)>, Failure> {
        let holders = holders(line);
        if holders.len() == 1 || line.len() <= 1 {
            return Ok(if holders.is_empty() { line.to_vec() } else { holders });
        }
        let key = quoted(&self.key);
        Err(Failure::usage(match holders.len() {
            0 => format!(
                "nobody holds {key}, and {} wait for it: add --ticket with the id that `line` shows",
                line.len()
            ),
            count => format!(
                "{key} has {count} holders: add --holder to break all of them, or --ticket with the id that `line` shows"
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

fn holders(line: &[(Ticket, Place)]) -> Vec<(Ticket, Place)> {
    let holds = |(_, place): &&(_, Place)| place.state == TicketState::Holding;
    line.iter().filter(holds).cloned().collect()
}

fn somebody_waits(line: &[(Ticket, Place)]) -> bool {
    line.iter().any(|(_, place)| place.state == TicketState::Waiting)
}

/// What became of a ticket. `next` says whether somebody waits behind it.
fn sentence(
    ticket: &Ticket,
    life: Option<Duration>,
    left: LeaveOutcome,
    force: bool,
    next: bool,
) -> String {
    let (id, owner) = (ticket.id, printable(&ticket.owner));
    let (served, then) = if next {
        (", and the next is served", "there are two holders")
    } else {
        ("", "it works without the lock")
    };
    match left {
        LeaveOutcome::Requested => {
            let latest = life.map_or(String::new(), |life| {
                format!(", at the latest in {}", brief(life + ROUNDED_OFF))
            });
            format!(
                "{owner} was told to leave: ticket {id} is out as soon as its work has stopped{latest}\n"
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

fn is_out(ticket: &Ticket) -> String {
    format!("ticket {} of {} is out\n", ticket.id, printable(&ticket.owner))
}

fn object(ticket: &Ticket, left: LeaveOutcome, is_out: bool) -> String {
    let object = Object::new().text("key", ticket.key.as_str()).text("id", &ticket.id.to_string());
    object.text("was", was(left)).plain("out", is_out).line()
}

/// What a ticket was when it was broken.
fn was(left: LeaveOutcome) -> &'static str {
    match left {
        LeaveOutcome::Requested => "told",
        LeaveOutcome::Holding => "holding",
        LeaveOutcome::Waiting => "waiting",
        LeaveOutcome::Absent | LeaveOutcome::Unsure => "absent",
    }
}
