//! `tenure keys`: the keys with a holder or a waiter.

use tenure::blocking::block_on;
use tenure::inspect::TicketState;
use tenure::{Key, Locks};

use super::json::Object;
use super::table::{Column, Table};
use crate::failure::{Failure, REFUSED, answer, say};
use crate::screen::{Screen, quoted};
use crate::store::Address;

/// Shows the keys with a holder or a waiter.
///
/// With --json, a key is an object with `key` and the numbers of tickets `holding` and `waiting`. A
/// line that cannot be read is reported on standard error, and the exit code is 77.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  tenure keys invoices/")]
pub(crate) struct Args {
    /// Shows only keys that begin with this.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

const COLUMNS: [Column; 3] =
    [Column::Left("KEY"), Column::Right("HOLDING"), Column::Right("WAITING")];

pub(crate) fn keys(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    let nothing = match args.prefix.as_str() {
        "" => "no key has a holder or a waiter".to_owned(),
        prefix => format!("no key that begins with {} has a holder or a waiter", quoted(prefix)),
    };
    let locks = at.look(|| Failure::nothing(&nothing))?;
    let mut table = Table::new(&COLUMNS);
    let (mut any, mut code) = (false, 0);
    for key in block_on(locks.keys(&args.prefix))? {
        let (holding, waiting) = match count(&locks, &key) {
            // Show the other keys as well.
            Err(failure) if failure.code() == REFUSED => {
                say(failure.sentence());
                code = REFUSED;
                continue;
            }
            counted => counted?,
        };
        // All tickets may have left since the keys were listed.
        if holding + waiting == 0 {
            continue;
        }
        any = true;
        if json {
            let object = Object::new().text("key", key.as_str());
            let object = object.plain("holding", holding).plain("waiting", waiting);
            answer(object.line())?;
        } else {
            table.row([key.to_string(), holding.to_string(), waiting.to_string()]);
        }
    }
    let screen = Screen::of_output();
    if any && !json {
        answer(table.render(screen))?;
    } else if screen.is_some() && !any && code == 0 {
        say(&nothing);
    }
    Ok(code)
}

fn count(locks: &Locks, key: &Key) -> Result<(usize, usize), Failure> {
    let line = block_on(locks.line(key.as_str()))?;
    let holding = line.iter().filter(|entry| entry.state == TicketState::Holding).count();
    Ok((holding, line.len() - holding))
}
