//! `tenure keys`: the keys that somebody holds or waits for.

use tenure::blocking::block_on;
use tenure::{Key, Locks, TicketState};

use crate::failure::{Failure, REFUSED, answer, say};
use crate::json::Object;
use crate::screen::{Screen, quoted};
use crate::store::Address;
use crate::table::{Column, Table};

/// Shows the keys that somebody holds or waits for.
///
/// With --json, a key is an object with `key`, and with how many are `holding` and `waiting`. A line that cannot be
/// read is told on standard error, and the exit code is 77 in the end.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  tenure keys invoices/")]
pub(crate) struct Args {
    /// Only keys that begin with this.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

const COLUMNS: [Column; 3] =
    [Column::Left("KEY"), Column::Right("HOLDING"), Column::Right("WAITING")];

pub(crate) fn keys(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    let nobody = match args.prefix.as_str() {
        "" => "nobody holds or waits for anything".to_owned(),
        prefix => format!("nobody holds or waits for a key that begins with {}", quoted(prefix)),
    };
    let locks = at.look(|| Failure::nothing(&nobody))?;
    let mut table = Table::new(&COLUMNS);
    let (mut any, mut code) = (false, 0);
    for key in block_on(locks.keys(&args.prefix))? {
        let (holding, waiting) = match count(&locks, &key) {
            // One line that cannot be read hides no other.
            Err(failure) if failure.code() == REFUSED => {
                say(failure.sentence());
                code = REFUSED;
                continue;
            }
            counted => counted?,
        };
        if holding + waiting == 0 {
            // Everybody has left it since.
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
        say(&nobody);
    }
    Ok(code)
}

fn count(locks: &Locks, key: &Key) -> Result<(usize, usize), Failure> {
    let line = block_on(locks.line(key.as_str()))?;
    let holding = line.iter().filter(|(_, place)| place.state == TicketState::Holding).count();
    Ok((holding, line.len() - holding))
}
