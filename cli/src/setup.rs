//! `tenure setup`: the tables of a store that has tables.

use tenure::registry;

use crate::failure::{Failure, answer, say};
use crate::store::Address;

/// Makes the tables of a store that has tables.
///
/// It is for an administrator whose other users may not make tables. Without it, the first client
/// makes them. Tables that are there are left as they are. A store without tables needs no setup,
/// and the command says so.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  TENURE_ON=mariadb://app@localhost/shop tenure setup --dry-run | mariadb shop"
)]
pub(crate) struct Args {
    /// Prints the SQL that makes the tables, and connects to nothing. It names no database.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn setup(at: &Address, args: &Args) -> Result<u8, Failure> {
    let url = at.url()?;
    at.refuse_private(&url)?;
    match sql(&url)? {
        Some(sql) if args.dry_run => answer(sql)?,
        Some(_) => {
            at.open_with_warnings()?;
            say_unless(at.quiet, "the store has its tables");
        }
        None => say_unless(at.quiet, "this store has no tables, and needs no setup"),
    }
    Ok(0)
}

/// Returns the SQL that makes the tables. `None`: the store has none.
fn sql(url: &str) -> Result<Option<String>, Failure> {
    match registry::engine_of(url)?.name {
        #[cfg(feature = "mysql")]
        "mysql" => Ok(Some(tenure::mysql::Settings::from_url(url)?.setup_sql())),
        #[cfg(feature = "postgres")]
        "postgres" => Ok(Some(tenure::postgres::Settings::from_url(url)?.setup_sql())),
        _ => Ok(None),
    }
}

fn say_unless(quiet: bool, sentence: &str) {
    if !quiet {
        say(sentence);
    }
}
