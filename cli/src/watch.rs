//! `tenure watch`: what happens to the lines, as it happens.

use std::thread;
use std::time::{Duration, Instant};

use tenure::blocking::block_on;
use tenure::event::{Event, EventKind};
use tenure::{EventDelivery, Locks, WatchEvent};

use crate::failure::{Failure, answer, say};
use crate::json::Object;
use crate::moment::rfc3339;
use crate::screen::{Screen, cut, printable};
use crate::store::Address;

/// Shows what happens to the lines, until it is interrupted.
///
/// Stores without a journal, such as Redis, are looked at several times a second: what comes and goes between
/// two looks is not shown. A directory that is not made yet is waited for.
///
/// With --json, an event is an object with `at`, `key`, `event` (joined, served, left, expired or broken), `id`, `token`
/// and `owner`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenure watch invoices/
  tenure watch --json | jq -r 'select(.event == \"broken\") | .owner'")]
pub(crate) struct Args {
    /// Only keys that begin with this.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

/// A store that does not answer is asked again, but not without end in a moment.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Interval between two looks for a directory that is not made yet.
const LOOK_FOR_STORE: Duration = Duration::from_millis(100);
/// An answer that fails so soon after another is no news.
const SAME_TROUBLE: Duration = Duration::from_secs(60);

pub(crate) fn watch(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    let locks = opened(at)?;
    let mut watch = block_on(locks.watch_prefix(args.prefix.as_str()))?;
    let screen = Screen::of_output();
    if screen.is_some() {
        say(match locks.guarantees().events {
            EventDelivery::Every => "watching; interrupt to end",
            EventDelivery::Sampled => "watching, with a look now and then; interrupt to end",
        });
    }
    let mut trouble: Option<Instant> = None;
    loop {
        let seen = match block_on(watch.next()) {
            Ok(WatchEvent::Event(event)) => {
                if trouble.take().is_some() {
                    say("the store answers again");
                }
                show(&event, json, screen)
            }
            Err(error) if error.is_retryable() => {
                if trouble.is_none_or(|last| last.elapsed() > SAME_TROUBLE) {
                    say(&format!("looking again until the store answers: {error}"));
                }
                trouble = Some(Instant::now());
                thread::sleep(LOOK_AGAIN);
                continue;
            }
            Err(error) => return Err(error.into()),
            // A gap, and whatever else an onlooker may come to see.
            Ok(_) => {
                say("more happened than the store still knows; `line` shows how it stands now");
                continue;
            }
        };
        if let Some(text) = seen {
            answer(text)?;
        }
    }
}

/// The locks of the store, once it is there: a monitor may start before the first lock is taken.
fn opened(at: &Address) -> Result<Locks, Failure> {
    let mut waits = false;
    loop {
        if let Some(locks) = at.look_for()? {
            return Ok(locks);
        }
        if !waits {
            waits = true;
            say(&format!("waiting for the first lock: there is no store at {} yet", at.url()?));
        }
        thread::sleep(LOOK_FOR_STORE);
    }
}

fn show(event: &Event, json: bool, screen: Option<Screen>) -> Option<String> {
    let word = match event.kind {
        EventKind::Joined => "joined",
        EventKind::Served => "served",
        EventKind::Left => "left",
        EventKind::Expired => "expired",
        EventKind::Broken => "broken",
        // A note that changes is not in the promise of what is shown.
        _ => return None,
    };
    let ticket = &event.ticket;
    if json {
        let object = Object::new().text("at", &rfc3339(event.at_us));
        let object = object.text("key", ticket.key.as_str()).text("event", word);
        let object = object.text("id", &ticket.id.to_string()).plain("token", event.number);
        return Some(object.text("owner", &ticket.owner).line());
    }
    let key = printable(ticket.key.as_str());
    let owner = printable(&ticket.owner);
    let at = rfc3339(event.at_us);
    let Some(screen) = screen else {
        return Some(format!("{at}  {word:<7}  {}  {key}  {owner}\n", event.number));
    };
    let (time, colour) = (&at[11..23], colour(event.kind).filter(|_| screen.colours));
    let text = cut(&format!("{time}  {word:<7}  {key}  {owner}"), screen.columns);
    Some(match colour {
        Some(colour) => format!("\u{1b}[{colour}m{text}\u{1b}[0m\n"),
        None => format!("{text}\n"),
    })
}

fn colour(what: EventKind) -> Option<u8> {
    match what {
        EventKind::Served => Some(32),
        EventKind::Expired => Some(33),
        EventKind::Broken => Some(31),
        _ => None,
    }
}
