//! `tenure keys`: the keys with a holder or a waiter.

use futures_util::{StreamExt as _, stream};
use tenure::Locks;
use tenure::blocking::block_on;
use tenure::inspect::{LineEntry, TicketState, known_keys};

use super::json::Object;
use super::table::{Column, Table};
use crate::failure::{Failure, REFUSED, answer, say};
use crate::screen::{Screen, quoted};
use crate::store::Address;

/// Shows the keys with a holder or a waiter.
///
/// With --json, a key is an object with `key` and the numbers of tickets `holding` and `waiting`. A
/// line or a file of the store that cannot be read is reported on standard error, and the exit code
/// is 77.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  tenure keys invoices/")]
pub(crate) struct Args {
    /// Shows only keys that begin with this.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

/// Maximum number of lines that are read at once.
pub(super) const READS_MAX: usize = 8;
/// Maximum number of lines that `doctor` and `top` read.
pub(super) const LINES_MAX: usize = 5_000;

const COLUMNS: [Column; 3] =
    [Column::Left("KEY"), Column::Right("HOLDING"), Column::Right("WAITING")];

pub(crate) fn keys(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    let nothing = match args.prefix.as_str() {
        "" => "no key has a holder or a waiter".to_owned(),
        prefix => format!("no key that begins with {} has a holder or a waiter", quoted(prefix)),
    };
    let locks = at.look(0)?;
    let (mut table, mut any) = (Table::new(&COLUMNS), false);
    let code = each_line(&locks, &args.prefix, |line| {
        // All tickets may have left since the keys were listed.
        let Some(LineEntry { key, .. }) = line.first() else { return Ok(()) };
        any = true;
        let holding = line.iter().filter(|entry| entry.state == TicketState::Holding).count();
        let waiting = line.len() - holding;
        if json {
            let object = Object::new().text("key", key.as_str());
            return answer(object.plain("holding", holding).plain("waiting", waiting).line());
        }
        table.row([key.to_string(), holding.to_string(), waiting.to_string()]);
        Ok(())
    })?;
    finish(&table, any, json, code, &nothing)
}

/// Reads the line of each key that begins with `prefix`, in the order of the keys. A line that
/// cannot be read is reported, and the others are shown. Returns the exit code.
pub(super) fn each_line(
    locks: &Locks,
    prefix: &str,
    mut show: impl FnMut(Vec<LineEntry>) -> Result<(), Failure>,
) -> Result<u8, Failure> {
    let mut code = 0;
    let (keys, trouble) = known_keys(block_on(locks.keys(prefix)))?;
    if let Some(error) = trouble {
        say(&error.to_string());
        code = REFUSED;
    }
    let mut lines = stream::iter(&keys).map(|key| locks.line(key.as_str())).buffered(READS_MAX);
    while let Some(line) = block_on(lines.next()) {
        match line.map_err(Failure::from) {
            Err(failure) if failure.code() == REFUSED => {
                say(failure.sentence());
                code = REFUSED;
            }
            line => show(line?)?,
        }
    }
    Ok(code)
}

/// Prints the table, or that there is nothing to show.
pub(super) fn finish(
    table: &Table,
    any: bool,
    json: bool,
    code: u8,
    nothing: &str,
) -> Result<u8, Failure> {
    let screen = Screen::of_output();
    if any && !json {
        answer(table.render(screen))?;
    } else if screen.is_some() && !any && code == 0 {
        say(nothing);
    }
    Ok(code)
}
