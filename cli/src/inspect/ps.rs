//! `tenure ps`: the holders of all keys.

use tenure::inspect::{LineEntry, TicketState};
use tenure_kit::duration::brief;

use super::json::Object;
use super::keys::{each_line, finish};
use super::line::{age, is_stopped, millis};
use super::short_id::short;
use super::table::{Column, Table};
use crate::failure::{Failure, answer};
use crate::owner::OwnerParts;
use crate::screen::quoted;
use crate::store::Address;

/// Shows the holders of all keys.
///
/// COMMAND is the program that runs under the lock, with the process id of its `tenure`; a signal
/// to that process reaches the program. For a claim of `tenure take` it is `claim-holder`, which
/// `tenure show` explains: no program runs under it, and a signal to it ends the claim. Other
/// programs of the library may have no USER and an arbitrary COMMAND.
///
/// JOINED is the time since a holder joined the line, with the time that it waited, where the
/// store's tokens show it. LEFT is the remaining time of its lease, where the store keeps leases.
/// WAITING is the number of waiters of the key. STATE marks a holder that was asked to leave and
/// has not stopped yet (leaving), and one in a file store whose process is stopped (stopped).
///
/// With --json, a holder is an object with `key`, `id`, `token`, `state` (holding or leaving),
/// `kind` (exclusive, shared or permits), `user`, `command`, `host` and `pid` (null where the owner
/// does not have them), `owner`, `note`, `since_ms`, `expires_in_ms`, `waiting` and `leaving`. A
/// line that cannot be read is reported on standard error, and the exit code is 77.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenure ps
  tenure ps invoices/ --json | jq -r 'select(.waiting > 0) | .owner'")]
pub(crate) struct Args {
    /// Shows only keys that begin with this.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

// The id is the first, so that no screen is too narrow for it.
const COLUMNS: [Column; 9] = [
    Column::Left("ID"),
    Column::Left("KEY"),
    Column::Left("USER"),
    Column::Left("COMMAND"),
    Column::Left("HOST"),
    Column::Right("JOINED"),
    Column::Right("LEFT"),
    Column::Right("WAITING"),
    Column::Left("STATE"),
];

pub(crate) fn ps(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    let nothing = match args.prefix.as_str() {
        "" => "no key has a holder".to_owned(),
        prefix => format!("no key that begins with {} has a holder", quoted(prefix)),
    };
    let locks = at.look(0)?;
    let (mut table, mut any) = (Table::new(&COLUMNS), false);
    let code = each_line(&locks, &args.prefix, |line| {
        let of = |state| line.iter().filter(move |entry| entry.state == state);
        let waiting = of(TicketState::Waiting).count();
        for holder in of(TicketState::Holding) {
            any = true;
            let parts = OwnerParts::parse(&holder.owner);
            if json {
                answer(object(holder, parts.as_ref(), waiting))?;
            } else {
                table.row(row(holder, parts, waiting));
            }
        }
        Ok(())
    })?;
    finish(&table, any, json, code, &nothing)
}

fn object(holder: &LineEntry, parts: Option<&OwnerParts>, waiting: usize) -> String {
    Object::new()
        .text("key", holder.key.as_str())
        .text("id", &holder.id.to_string())
        .plain("token", holder.number)
        .text("state", holder.label())
        .text("kind", holder.share.kind())
        .maybe_text("user", parts.and_then(|parts| parts.user.as_deref()))
        .maybe_text("command", parts.map(|parts| &*parts.program))
        .maybe_text("host", parts.map(|parts| &*parts.host))
        .maybe("pid", parts.map(|parts| parts.pid.into()))
        .text("owner", &holder.owner)
        .text("note", &holder.note)
        .maybe("since_ms", holder.since.map(age).map(millis))
        .maybe("expires_in_ms", holder.life.map(millis))
        .plain("waiting", waiting)
        .plain("leaving", holder.leaving)
        .line()
}

/// The marks of a holder that does not simply hold.
fn marks(holder: &LineEntry) -> String {
    let marks = [("leaving", holder.leaving), ("stopped", is_stopped(holder))];
    let marks: Vec<_> = marks.into_iter().filter_map(|(mark, is)| is.then_some(mark)).collect();
    marks.join(", ")
}

fn row(holder: &LineEntry, parts: Option<OwnerParts>, waiting: usize) -> [String; 9] {
    let (user, command, host) = match parts {
        Some(OwnerParts { program, pid, user, host }) => {
            (user.unwrap_or_default(), format!("{program}[{pid}]"), host)
        }
        None => (String::new(), holder.owner.to_string(), String::new()),
    };
    [
        short(holder.id),
        holder.key.to_string(),
        user,
        command,
        host,
        holder.since.map(age).map_or(String::new(), brief),
        holder.life.map_or(String::new(), brief),
        waiting.to_string(),
        marks(holder),
    ]
}
