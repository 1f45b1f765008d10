//! `tenure top`: a live table of the keys, their holders and their waiters.

mod commands;
mod keyboard;
mod live;
mod raw_terminal;
mod read;
mod rows;
mod view;

use std::thread;
use std::time::Duration;

use tenure::Locks;
use tenure::blocking::block_on;
use tenure_kit::duration::{self, brief};

use crate::failure::{Failure, answer, say};
use crate::screen::Screen;
use crate::store::{Address, opened_or_awaited};
use rows::Rows;

/// Shows the keys with their holders and waiters, live.
///
/// Keys with waiters come first, then those whose holders joined first. JOINED is the time since
/// the holder joined the line, with the time that it waited, where the store's tokens show it. LEFT
/// is the remaining time of its lease, where the store keeps leases. TOKEN is the fencing token of
/// an exclusive holder. A holder `claim-holder` holds a claim of `tenure take`. A change is shown
/// when the store reports it; all lines are read again from time to time, at most 5000.
///
/// Keys: `q` quits, `/` shows only keys or holders that contain a text, `b` asks the selected
/// holder to leave, after a question. The arrows, `j` and `k` select.
///
/// If the output is no terminal, the table is printed once, or each time of --every.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenure top invoices/
  tenure top --every 10s | tee keys.log")]
pub(crate) struct Args {
    /// Shows only keys that begin with this.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// The time between two reads of all lines [default: 5s; once if not in a terminal].
    #[arg(long, value_name = "TIME", value_parser = interval)]
    every: Option<Duration>,
}

/// Time between two reads of all lines in a terminal, unless the user has set one.
const READ_EVERY: Duration = Duration::from_secs(5);
/// Limits of that time.
const EVERY_MIN: Duration = Duration::from_millis(100);
const EVERY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

fn interval(text: &str) -> Result<Duration, String> {
    let every = duration::parse(text)?;
    if (EVERY_MIN..=EVERY_MAX).contains(&every) {
        return Ok(every);
    }
    Err(format!("the time is from {} to {}", brief(EVERY_MIN), brief(EVERY_MAX)))
}

pub(crate) fn top(at: &Address, args: &Args) -> Result<u8, Failure> {
    let is_live = Screen::is_interactive() && !Screen::is_dumb();
    if is_live {
        let locks = opened_or_awaited(at)?;
        return live::run(at, &locks, &args.prefix, args.every.unwrap_or(READ_EVERY));
    }
    let locks = at.look(0)?;
    print(&locks, args)
}

/// Prints the table once, or again and again.
fn print(locks: &Locks, args: &Args) -> Result<u8, Failure> {
    loop {
        let mut rows = Rows::default();
        let reading = block_on(read::all(locks, &args.prefix))?;
        let more = reading.more;
        if let Some(error) = &reading.trouble {
            say(&error.to_string());
        }
        rows.replace(reading.lines);
        answer(rows::table(&rows.shown("")).render(Screen::of_output()))?;
        if more > 0 {
            say(&read::not_read(more));
        }
        let Some(every) = args.every else { return Ok(0) };
        thread::sleep(every);
        answer("\n")?;
    }
}
