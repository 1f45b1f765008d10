//! `tenure count`: a counter with a time window, for rate limits.

use std::time::Duration;

use tenure::blocking::block_on;
use tenure::limits::TTL_MAX;
use tenure_kit::duration::{self, brief};

use super::json::Object;
use crate::failure::{BUSY, Failure, answer};
use crate::screen::quoted;
use crate::store::Address;

/// Counts within a time window, and prints the sum.
///
/// The window begins with the first count. A count that would exceed the limit is refused: it
/// counts nothing, and tenure exits with 75. etcd, ZooKeeper and RedLock have no counters.
///
/// With --json: an object with `key`, `value`, `allowed`, and `resets_in_ms` until the window ends.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  tenure count api/alice --per 1m --limit 100 && curl https://example.org/api"
)]
pub(crate) struct Args {
    /// The key of the counter.
    key: String,
    /// The amount to add; 0 only reads.
    #[arg(long, value_name = "N", default_value_t = 1)]
    by: u64,
    /// The length of the window.
    #[arg(long, value_name = "TIME", value_parser = window)]
    per: Duration,
    /// The maximum within a window.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Maximum length of a window.
const WINDOW_MAX: Duration = TTL_MAX;

fn window(text: &str) -> Result<Duration, String> {
    let window = duration::parse(text)?;
    if window.is_zero() || window > WINDOW_MAX {
        return Err(format!("a window is longer than 0s and at most {}", brief(WINDOW_MAX)));
    }
    Ok(window)
}

pub(crate) fn count(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    tenure::Key::new(&args.key)?;
    if let Some(limit) = args.limit.filter(|limit| args.by > *limit) {
        let by = args.by;
        return Err(Failure::usage(format!(
            "`--limit` {limit} never lets a count of {by} through: raise it, or write --by {limit}"
        )));
    }
    let locks = at.open_shared()?;
    let mut counter = locks.counter(&args.key).window(args.per);
    if let Some(limit) = args.limit {
        counter = counter.limit(limit);
    }
    // Print the warnings only of a store that can count.
    let sum = block_on(counter.add(args.by))?;
    at.warn(&locks);
    let resets_in = sum.resets_in.unwrap_or_default();
    let text = if json {
        let object = Object::new().text("key", &args.key).plain("value", sum.value);
        object.plain("resets_in_ms", resets_in.as_millis()).plain("allowed", sum.allowed).line()
    } else {
        format!("{}\n", sum.value)
    };
    answer(text)?;
    if sum.allowed {
        return Ok(0);
    }
    let refused = match args.by {
        0 => "is above the limit".to_owned(),
        by => format!("cannot grow by {by} now"),
    };
    Err(Failure::new(
        BUSY,
        format!(
            "the count of {} is at {} and {refused}: it starts anew in {}",
            quoted(&args.key),
            sum.value,
            brief(resets_in)
        ),
    ))
}
