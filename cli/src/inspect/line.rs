//! `tenure line`: the holders of a key and its waiters, from the front.

use std::time::{Duration, SystemTime};

use tenure::blocking::block_on;
use tenure::inspect::{LineEntry, Share, TicketState};
use tenure_kit::duration::brief;

use super::json::Object;
use super::short_id::short;
use super::table::{Column, Table};
use crate::failure::{Failure, NOTHING, answer, say};
use crate::owner::OwnerParts;
use crate::screen::{Screen, quoted};
use crate::store::Address;

/// Shows the holders of a key and its waiters, from the front.
///
/// JOINED is the time since a ticket joined the line, with the time that it waited, where the
/// store's tokens show it. LEFT is the remaining time of its lease, where the store keeps leases.
/// TOKEN is the fencing token of an exclusive holder; no other ticket has one. An OWNER
/// `claim-holder` holds a claim of `tenure take`.
///
/// ID is the first eight digits of the ticket's id, which `tenure break --ticket` takes.
///
/// With --json, a ticket is an object with `key`, `id`, `token`, `state` (holding, waiting or
/// leaving), `kind` (exclusive, shared or permits), `permits` (`take` and `of`, or null for the
/// other kinds), `position` (1 is the front), `owner`, `note`, `expires_in_ms` where the store
/// keeps leases, and `since_ms` where its tokens show the time since the ticket joined. Here
/// `token` is the number of any ticket: a fence accepts it from an exclusive holder only. A waiter
/// will hold with the number that it has now. A store of independent servers may show a number
/// above the ticket's own, never below it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenure line nightly
  tenure line --check nightly && echo 'the job is running'")]
pub(crate) struct Args {
    /// The key of the line.
    key: String,
    /// Prints nothing; exits with 0 if the key is held, and with 1 if it is free.
    ///
    /// A key is held while it has a holder of any kind, also one that was asked to leave. Errors
    /// have their own exit codes, from 64 on. The answer may be old when tenure exits: to act only
    /// if a key is free, use `tenure run --no-wait`.
    #[arg(long)]
    pub(crate) check: bool,
}

// The id is the first, so that no screen is too narrow for it.
const COLUMNS: [Column; 8] = [
    Column::Left("ID"),
    Column::Left("STATE"),
    Column::Left("OWNER"),
    Column::Right("JOINED"),
    Column::Right("SHARE"),
    Column::Right("LEFT"),
    Column::Right("TOKEN"),
    Column::Left("NOTE"),
];

pub(crate) fn line(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    tenure::Key::new(&args.key)?;
    if args.check {
        return check(at, &args.key);
    }
    let nothing = format!("{} has no holder and no waiter", quoted(&args.key));
    let line = block_on(at.look(0)?.line(&args.key))?;
    if line.is_empty() && !json && Screen::of_output().is_some() {
        say(&nothing);
    }
    let text: String = if json {
        (1..).zip(&line).map(|(position, entry)| object(position, entry)).collect()
    } else {
        table(&line)
    };
    answer(text)?;
    Ok(0)
}

/// Answers by the exit code whether the key has a holder.
fn check(at: &Address, key: &str) -> Result<u8, Failure> {
    let locks = at.look(NOTHING).map_err(|failure| match failure.code() {
        NOTHING => Failure::silent(NOTHING),
        _ => failure,
    })?;
    let line = block_on(locks.line(key))?;
    let is_held = line.iter().any(|entry| entry.state == TicketState::Holding);
    Ok(if is_held { 0 } else { NOTHING })
}

fn object(position: u64, entry: &LineEntry) -> String {
    let share = entry.share;
    let permits = match share.kind() {
        "permits" => format!("{{\"take\":{},\"of\":{}}}", share.take(), share.of()),
        _ => "null".to_owned(),
    };
    Object::new()
        .text("key", entry.key.as_str())
        .text("id", &entry.id.to_string())
        .plain("token", entry.number)
        .text("state", entry.label())
        .text("kind", share.kind())
        .plain("permits", permits)
        .plain("position", position)
        .text("owner", &entry.owner)
        .text("note", &entry.note)
        .maybe("expires_in_ms", entry.life.map(millis))
        .maybe("since_ms", entry.since.map(age).map(millis))
        .line()
}

fn table(line: &[LineEntry]) -> String {
    let screen = Screen::of_output();
    if line.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&COLUMNS);
    for entry in line {
        table.row([
            short(entry.id),
            entry.label().into(),
            entry.owner.to_string(),
            entry.since.map(age).map_or(String::new(), brief),
            shown(entry.share),
            entry.life.map_or(String::new(), brief),
            token(entry).map_or(String::new(), |token| token.to_string()),
            entry.note.to_string(),
        ]);
    }
    table.render(screen)
}

/// The fencing token. Readers, holders of permits and waiters have none.
pub(super) fn token(entry: &LineEntry) -> Option<u64> {
    let has_one = entry.state == TicketState::Holding && entry.share.kind() == "exclusive";
    has_one.then_some(entry.number)
}

/// Whether the process of a ticket without a lease is stopped, so that the ticket does not end.
pub(super) fn is_stopped(entry: &LineEntry) -> bool {
    entry.life.is_none() && OwnerParts::is_stopped(&entry.owner)
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn shown(share: Share) -> String {
    match share.kind() {
        "permits" => format!("{}/{}", share.take(), share.of()),
        word => word.into(),
    }
}

/// The time since then, by this machine's clock.
pub(super) fn age(since: SystemTime) -> Duration {
    since.elapsed().unwrap_or_default()
}
