//! `tenure next`: the next numbers of a sequence.

use std::io::{self, BufWriter, Write as _};

use tenure::blocking::block_on;

use crate::failure::Failure;
use crate::json::Object;
use crate::store::Address;

/// How many numbers one call gives at most.
const COUNT_MAX: u64 = 1_000_000;

/// Prints the next number of a sequence, from 1 upwards; nobody else gets it.
///
/// The sequence has nothing to do with a lock of the same name. A number that is given and not used is gone.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  number=$(tenure next invoices)")]
pub(crate) struct Args {
    /// Of which sequence.
    key: String,
    /// How many numbers, one a line.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: u64,
}

pub(crate) fn next(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    tenure::Key::new(&args.key)?;
    let block = block_on(at.open()?.sequence(&args.key).next_block(args.count))?;
    let mut out = BufWriter::new(io::stdout().lock());
    for value in block {
        if json {
            let object = Object::new().text("key", &args.key).plain("value", value);
            out.write_all(object.line().as_bytes())?;
        } else {
            writeln!(out, "{value}")?;
        }
    }
    out.flush()?;
    Ok(0)
}
