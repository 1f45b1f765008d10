//! `tenure line`: who holds a key and who waits for it, from the front.

use std::time::{Duration, SystemTime};

use tenure::blocking::block_on;
use tenure::{Place, Ticket};
use tenure_kit::duration::brief;

use crate::failure::{Failure, answer, say};
use crate::json::Object;
use crate::screen::{Screen, quoted};
use crate::store::Address;
use crate::table::{Column, Table};

/// Shows who holds a key and who waits for it, from the front.
///
/// SINCE is how long ago a ticket joined the line, where the store's numbers tell; LEFT is how long it lives
/// on without a sign of life, where the store keeps leases.
///
/// ID is the first eight digits of the ticket's id, which `tenure break --ticket` takes.
///
/// With --json, a ticket is an object with `key`, `id`, `token`, `state` (holding, waiting or leaving), `kind` (exclusive,
/// shared or permits), `permits` (`take` and `of`, or null for the other kinds), `position` (1 is the front), `owner`,
/// `note`, `expires_in_ms` where the store keeps leases, and `since_ms` where its numbers tell how long ago the
/// ticket came. The token of one that waits is the one that it will have. On a RedLock, whose servers do not count together, a token may
/// be shown above the ticket's own, never below it.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  tenure line nightly")]
pub(crate) struct Args {
    /// Whose line.
    key: String,
}

const COLUMNS: [Column; 8] = [
    Column::Left("STATE"),
    Column::Left("ID"),
    Column::Left("OWNER"),
    Column::Right("SINCE"),
    Column::Right("SHARE"),
    Column::Right("LEFT"),
    Column::Right("TOKEN"),
    Column::Left("NOTE"),
];

/// Digits of a ticket's id that the table shows.
const ID_DIGITS: usize = 8;

pub(crate) fn line(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    tenure::Key::new(&args.key)?;
    let nobody = format!("nobody holds or waits for {}", quoted(&args.key));
    let line = block_on(at.look(|| Failure::nothing(&nobody))?.line(&args.key))?;
    if line.is_empty() && !json && Screen::of_output().is_some() {
        say(&nobody);
    }
    let text: String = if json {
        (1..)
            .zip(&line)
            .map(|(position, (ticket, place))| object(position, ticket, place))
            .collect()
    } else {
        table(&line)
    };
    answer(text)?;
    Ok(0)
}

fn object(position: u64, ticket: &Ticket, place: &Place) -> String {
    let life_ms = place.life.map(millis);
    let share = ticket.share;
    let permits = match share.kind() {
        "permits" => format!("{{\"take\":{},\"of\":{}}}", share.take(), share.of()),
        _ => "null".to_owned(),
    };
    Object::new()
        .text("key", ticket.key.as_str())
        .text("id", &ticket.id.to_string())
        .plain("token", place.number)
        .text("state", place.label())
        .text("kind", share.kind())
        .plain("permits", permits)
        .plain("position", position)
        .text("owner", &ticket.owner)
        .text("note", &ticket.note)
        .maybe("expires_in_ms", life_ms)
        .maybe("since_ms", since(place.number).map(millis))
        .line()
}

fn table(line: &[(Ticket, Place)]) -> String {
    let screen = Screen::of_output();
    if line.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&COLUMNS);
    for (ticket, place) in line {
        table.row([
            place.label().into(),
            ticket.id.to_string()[..ID_DIGITS].into(),
            ticket.owner.to_string(),
            since(place.number).map_or(String::new(), brief),
            share(ticket),
            place.life.map_or(String::new(), brief),
            place.number.to_string(),
            ticket.note.to_string(),
        ]);
    }
    table.render(screen)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn share(ticket: &Ticket) -> String {
    match ticket.share.kind() {
        "permits" => format!("{}/{}", ticket.share.take(), ticket.share.of()),
        word => word.into(),
    }
}

/// Many stores number by the clock, in microseconds; where a number makes no sense as a time it is none.
fn since(number: u64) -> Option<Duration> {
    const SENSIBLE: Duration = Duration::from_secs(366 * 86_400);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let since = now.checked_sub(Duration::from_micros(number))?;
    (since < SENSIBLE).then_some(since)
}
