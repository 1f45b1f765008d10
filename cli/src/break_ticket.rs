//! `tenure break`: takes somebody else's ticket out of its line.

use std::time::Duration;

use tenure::blocking::block_on;
use tenure::{Left, Locks, Place, Standing, Ticket, TicketId};

use crate::duration::brief;
use crate::failure::{Failure, answer};
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
/// and --holder the line must have one ticket only.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenure break nightly --holder
  tenure line nightly --json      shows the id of every ticket
  tenure break nightly --ticket 0123456789abcdef0123456789abcdef")]
pub(crate) struct Args {
    /// In whose line.
    key: String,
    /// The ticket of this id.
    #[arg(long, value_name = "ID", conflicts_with = "holder")]
    ticket: Option<String>,
    /// Every ticket that holds.
    #[arg(long)]
    holder: bool,
    /// Takes it out at once, whatever its owner does. WARNING: if the owner still works, there are two. Only for
    /// an owner who is known to be gone or stuck.
    #[arg(long)]
    force: bool,
}

pub(crate) fn break_ticket(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    tenure::Key::new(&args.key)?;
    let wanted = args.ticket.as_ref().map(|id| id.parse::<TicketId>()).transpose()?;
    let locks = at.open()?;
    let line = block_on(locks.line(&args.key))?;
    for (ticket, place) in args.choose(&line, wanted)? {
        let left = args.take_out(&locks, ticket.id)?;
        let said = if json {
            object(&ticket, left)
        } else {
            sentence(&ticket, place.life, left, args.force)
        };
        answer(said)?;
    }
    Ok(0)
}

impl Args {
    fn choose(
        &self,
        line: &[(Ticket, Place)],
        wanted: Option<TicketId>,
    ) -> Result<Vec<(Ticket, Place)>, Failure> {
        let key = quoted(&self.key);
        let chosen: Vec<_> = match wanted {
            Some(id) => line.iter().filter(|(ticket, _)| ticket.id == id).cloned().collect(),
            None if self.holder => {
                let holds = |(_, place): &&(_, Place)| place.standing == Standing::Holding;
                line.iter().filter(holds).cloned().collect()
            }
            None if line.len() > 1 => {
                return Err(Failure::usage(format!(
                    "the line of {key} has {} tickets: say --holder, or --ticket with the id that \
                     `line` shows",
                    line.len()
                )));
            }
            None => line.to_vec(),
        };
        match (chosen.is_empty(), wanted) {
            (false, _) => Ok(chosen),
            (true, Some(id)) => {
                Err(Failure::new(NOTHING, format!("there is no ticket {id} in the line of {key}")))
            }
            (true, None) => Err(Failure::new(NOTHING, format!("nobody holds {key}"))),
        }
    }

    fn take_out(&self, locks: &Locks, id: TicketId) -> Result<Left, Failure> {
        Ok(block_on(async {
            if self.force {
                locks.force_out(&self.key, id).await
            } else {
                locks.break_ticket(&self.key, id).await
            }
        })?)
    }
}

fn sentence(ticket: &Ticket, life: Option<Duration>, left: Left, force: bool) -> String {
    let (id, owner) = (ticket.id, printable(&ticket.owner));
    match left {
        Left::Told => {
            let latest = life.map_or(String::new(), |life| {
                format!(", at the latest in {}", brief(life + ROUNDED_OFF))
            });
            format!(
                "{owner} was told to leave: ticket {id} is out as soon as its work has stopped{latest}\n"
            )
        }
        Left::Holding if force => {
            format!(
                "ticket {id} of {owner} is out, and the next is served; if {owner} still works, there are two\n"
            )
        }
        Left::Holding => format!("ticket {id} of {owner} is out, and the next is served\n"),
        Left::Waiting => format!("ticket {id} of {owner} was waiting, and is out\n"),
        Left::Absent | Left::Unsure => format!("ticket {id} of {owner} had already left\n"),
    }
}

fn object(ticket: &Ticket, left: Left) -> String {
    let outcome = match left {
        Left::Told => "told",
        Left::Holding => "holding",
        Left::Waiting => "waiting",
        Left::Absent | Left::Unsure => "absent",
    };
    let object = Object::new().text("key", ticket.key.as_str()).text("id", &ticket.id.to_string());
    object.text("was", outcome).line()
}
