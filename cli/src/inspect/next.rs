//! `tenure next`: the next numbers of a sequence.

use tenure::blocking::block_on;

use super::json::Object;
use crate::failure::{Failure, OUTPUT, answer};
use crate::screen::Screen;
use crate::store::Address;

/// Maximum of `--count`.
const COUNT_MAX: u64 = 1_000_000;
/// Number of lines in one write.
const CHUNK: usize = 1_000;

/// Prints the next number of a sequence, each number once.
///
/// The first is 1. The sequence is independent of a lock of the same key. A number that is not used
/// is not given again.
///
/// With --json, a number is an object with `key` and `value`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  number=$(tenure next invoices)")]
pub(crate) struct Args {
    /// The key of the sequence.
    key: String,
    /// The number of numbers, one a line.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: u64,
}

pub(crate) fn next(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    tenure::Key::new(&args.key)?;
    if Screen::output_is_closed() {
        return Err(Failure::new(OUTPUT, "standard output is closed: a number would be lost"));
    }
    let block = block_on(at.open_with_warnings()?.sequence(&args.key).next_block(args.count))?;
    let values: Vec<u64> = block.collect();
    for chunk in values.chunks(CHUNK) {
        let lines: String = chunk.iter().map(|value| line(&args.key, *value, json)).collect();
        answer(lines)?;
    }
    Ok(0)
}

fn line(key: &str, value: u64, json: bool) -> String {
    if json {
        Object::new().text("key", key).plain("value", value).line()
    } else {
        format!("{value}\n")
    }
}
