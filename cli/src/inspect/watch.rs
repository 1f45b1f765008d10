//! `tenure watch`: the events of the lines, as they happen.

use std::thread;
use std::time::{Duration, Instant};

use tenure::blocking::block_on;
use tenure::guarantees::EventDelivery;
use tenure::inspect::WatchEvent;
use tenure::inspect::{Event, EventKind};

use super::json::Object;
use super::short_id::short;
use crate::failure::{Failure, answer, say};
use crate::screen::{Screen, cut, printable};
use crate::store::{Address, opened_or_awaited};
use tenure_kit::rfc3339::rfc3339;

/// Shows the events of the lines, until it is interrupted.
///
/// A store without a journal is read several times a second: a ticket that comes and goes between
/// two reads is not shown. If the store does not exist yet, tenure waits for it.
///
/// With --json, an event is an object with `at`, `key`, `event` (joined, served, left, expired or
/// broken), `id`, `token` and `owner`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenure watch invoices/
  tenure watch --json | jq -r 'select(.event == \"broken\") | .owner'")]
pub(crate) struct Args {
    /// Shows only keys that begin with this.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

/// Pause before a retry while the store does not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// A failure is reported again after this time without one.
const SAME_OUTAGE: Duration = Duration::from_secs(60);

pub(crate) fn watch(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    let locks = opened_or_awaited(at)?;
    let mut watch = block_on(locks.watch_prefix(args.prefix.as_str()))?;
    let screen = Screen::of_output();
    if screen.is_some() {
        say(match locks.guarantees().events {
            EventDelivery::Every => "watching; interrupt to end",
            EventDelivery::Sampled => "watching by regular reads; interrupt to end",
        });
    }
    let mut outage: Option<Instant> = None;
    loop {
        let shown = match block_on(watch.next()) {
            Ok(WatchEvent::Event(event)) => {
                if outage.take().is_some() {
                    say("the store answers again");
                }
                show(&event, json, screen)
            }
            Err(error) if error.is_retryable() => {
                if outage.is_none_or(|last| last.elapsed() > SAME_OUTAGE) {
                    say(&format!("retrying until the store answers: {error}"));
                }
                outage = Some(Instant::now());
                thread::sleep(RETRY_PAUSE);
                continue;
            }
            Err(error) => return Err(error.into()),
            // A gap.
            Ok(_) => {
                say("some events were missed; `tenure line` shows the present state");
                continue;
            }
        };
        if let Some(text) = shown {
            answer(text)?;
        }
    }
}

fn show(event: &Event, json: bool, screen: Option<Screen>) -> Option<String> {
    let word = word(event.kind)?;
    let ticket = &event.ticket;
    if json {
        let object = Object::new().text("at", &rfc3339(event.at_us));
        let object = object.text("key", ticket.key.as_str()).text("event", word);
        let object = object.text("id", &ticket.id.to_string()).plain("token", event.number);
        return Some(object.text("owner", &ticket.owner).line());
    }
    let key = printable(ticket.key.as_str());
    let owner = printable(&ticket.owner);
    let (at, id) = (rfc3339(event.at_us), short(ticket.id));
    let Some(screen) = screen else {
        return Some(format!("{at}  {id}  {word:<7}  {}  {key}  {owner}\n", event.number));
    };
    let (time, colour) = (&at[11..23], colour(event.kind).filter(|_| screen.colours));
    let text = cut(&format!("{time}  {id}  {word:<7}  {key}  {owner}"), screen.columns);
    Some(match colour {
        Some(colour) => format!("\u{1b}[{colour}m{text}\u{1b}[0m\n"),
        None => format!("{text}\n"),
    })
}

/// The name of an event. `None` for changes of a note, which are not shown.
pub(super) fn word(kind: EventKind) -> Option<&'static str> {
    match kind {
        EventKind::Joined => Some("joined"),
        EventKind::Served => Some("served"),
        EventKind::Left => Some("left"),
        EventKind::Expired => Some("expired"),
        EventKind::Broken => Some("broken"),
        _ => None,
    }
}

fn colour(kind: EventKind) -> Option<u8> {
    match kind {
        EventKind::Served => Some(32),
        EventKind::Expired => Some(33),
        EventKind::Broken => Some(31),
        _ => None,
    }
}
