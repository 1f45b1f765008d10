//! `tenure bench`: how quick a store is, measured through the same calls that programs make.

mod cases;
mod handover;
mod outcome;

use std::io::{self, Write as _};
use std::time::Duration;

use tenure::blocking::block_on;
use tenure::engine::SystemClock;
use tenure::{Liveness, Locks, TicketId};

pub(crate) use handover::{Partner, partner};
use outcome::Outcome;
use tenure_kit::duration;

use crate::failure::{Failure, answer};
use crate::screen::Screen;
use crate::store::Address;
use crate::table::{Column, Table};

/// Measures how quick a store is.
///
/// - free: one key is locked and released, again and again.
/// - parallel: the same by many tasks, each with a key of its own.
/// - handover: from a release until the next in line holds, in another process.
/// - crowd: many tasks want one key; how long each waited, and how often each got it.
#[derive(clap::Args)]
#[command(verbatim_doc_comment, about = "Measures how quick a store is")]
#[command(after_help = "Example:\n  tenure --on file:./locks bench --seconds 1")]
pub(crate) struct Args {
    /// Only these cases [possible values: free, parallel, handover, crowd].
    #[arg(value_name = "CASE", value_parser = ["free", "parallel", "handover", "crowd"],
        hide_possible_values = true)]
    cases: Vec<String>,
    /// How long each case takes at most.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How many tasks work in parallel, or make the crowd.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1024))]
    tasks: u64,
}

/// What every case is given.
pub(crate) struct Bench {
    locks: Locks,
    url: String,
    /// Nobody else's keys begin with it.
    prefix: String,
    time: Duration,
    tasks: usize,
}

type Case = fn(&Bench) -> Result<Outcome, Failure>;

const CASES: [(&str, Case); 4] = [
    ("free", cases::free),
    ("parallel", cases::parallel),
    ("handover", handover::handover),
    ("crowd", cases::crowd),
];

const COLUMNS: [Column; 6] = [
    Column::Left("CASE"),
    Column::Right("OPS/S"),
    Column::Right("P50"),
    Column::Right("P99"),
    Column::Right("OPS"),
    Column::Left("MORE"),
];

pub(crate) fn bench(at: &Address, json: bool, args: &Args) -> Result<u8, Failure> {
    let url = at.url()?;
    let bench = Bench {
        locks: block_on(tenure::connect(&url))?,
        url,
        prefix: format!("tenure bench {}", TicketId::fresh()),
        time: Duration::from_secs(args.seconds),
        tasks: usize::try_from(args.tasks).unwrap_or(1),
    };
    let mut table = Table::new(&COLUMNS);
    for (name, case) in CASES {
        if !args.cases.is_empty() && !args.cases.iter().any(|wanted| wanted == name) {
            continue;
        }
        let outcome = bench.measure(name, case)?;
        if json {
            answer(outcome.object())?;
        } else {
            table.row(outcome.row());
        }
    }
    if !json {
        answer(table.render(Screen::of_output()))?;
    }
    Ok(0)
}

impl Bench {
    fn key(&self, case: &str) -> String {
        format!("{} {case}", self.prefix)
    }

    /// Other processes cannot come to a store that lives in this one.
    fn is_shared(&self) -> bool {
        self.locks.guarantees().liveness != Liveness::Process
    }

    /// Measures one case, and shows on a terminal which it is.
    fn measure(&self, name: &str, case: Case) -> Result<Outcome, Failure> {
        let Some(screen) = Screen::of_errors() else { return case(self) };
        let text = format!("measuring {name}, {} at most", duration::brief(self.time));
        let text = crate::screen::cut(&text, screen.columns.saturating_sub(1));
        let _nobody_reads = write!(io::stderr(), "\r{text}");
        let outcome = case(self);
        let blank = " ".repeat(text.chars().count());
        let _nobody_reads = write!(io::stderr(), "\r{blank}\r");
        outcome
    }
}

/// Nanoseconds by the clock that all processes of a machine share.
fn now_ns() -> u64 {
    use tenure::engine::Clock as _;
    SystemClock.now().boot_ns
}
