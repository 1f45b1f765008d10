//! `tenure doctor`: the guarantees of a store with its present settings, and a few checks of it.

mod checks;
mod finding;
mod lines;
mod promise;

use tenure::blocking::block_on;

use checks::{PrivateKey, round_trips};
use finding::{Finding, Verdict, exit_code};
use lines::Scan;
use promise::Promise;

use crate::failure::{Failure, UNREACHABLE, answer};
use crate::screen::{Screen, printable};
use crate::store::Address;

/// Checks a store: its guarantees and its health.
///
/// It shows each guarantee with `yes` or `no` and the reason, and a command that gives it where
/// there is one. It then shows the engine's warnings, and measures round trips, the time from a
/// release until the next waiter is served, and the store's clock. It also shows lines that cannot
/// be read, holders that were asked to leave and still hold, tickets that are not renewed, and
/// tickets in a file store whose process is stopped.
///
/// It locks and releases private keys, `tenure-doctor/` and a random name, and changes nothing
/// else. It reads at most 5000 lines.
///
/// It exits with 0, with 1 if there is a warning, and with 2 if a guarantee of --require is
/// missing.
///
/// With --json, a finding is an object with `check` (guarantee, warning, round-trip, hand-over,
/// clock, line or ticket), `name`, `verdict` (yes, no, missing, ok, note or warning), `text` and
/// `cure` (null without one). `round-trip`, `hand-over` and `clock` also have times in
/// microseconds: `median_us` and `worst_us`, or `ahead_us` (negative: behind) and `within_us`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenure doctor --require fair,store-crash || echo 'not this store'
  tenure doctor --json | jq -r 'select(.verdict == \"warning\") | .text'")]
pub(crate) struct Args {
    /// Reads only the lines of keys that begin with this.
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// The guarantees that must be there, separated by commas.
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    require: Vec<Promise>,
}

pub(crate) fn doctor(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    let url = at.url()?;
    let locks = at.look(UNREACHABLE)?;
    let private = PrivateKey::fresh(&locks);
    let guarantees = locks.guarantees();
    let mut findings: Vec<_> =
        Promise::all().map(|promise| promise.finding(guarantees, &args.require)).collect();
    let warnings = guarantees.warnings.iter();
    findings
        .extend(warnings.map(|text| Finding::new("warning", "settings", Verdict::Warning, text)));
    let (trips, finding) = block_on(round_trips(&locks, &private))?;
    findings.push(finding);
    let scan = block_on(Scan::begin(&locks, &args.prefix))?;
    let (found, takes_locks) = private.try_out(&url, &trips)?;
    findings.extend(found);
    findings.extend(block_on(scan.end(&locks, at))?);
    if takes_locks {
        // Elsewhere this would wait for the end of a lease that may not exist.
        block_on(locks.close());
    }
    if json {
        answer(findings.iter().map(Finding::object).collect::<String>())?;
    } else {
        let text: String = findings.iter().map(|one| one.lines(Screen::of_output())).collect();
        answer(format!("{}\n{text}", printable(&guarantees.store)))?;
    }
    Ok(exit_code(&findings))
}
