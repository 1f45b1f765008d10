//! `tenure bench`: measures a store through the API that programs use.

mod cases;
mod handover;
mod outcome;

use std::time::Duration;

use tenure::Locks;
use tenure::blocking::block_on;
use tenure::engine::SystemClock;
use tenure::guarantees::Liveness;
use tenure::inspect::TicketId;

pub(crate) use handover::{Partner, partner};
use outcome::Outcome;
use tenure_kit::duration;

use super::table::{Column, Table};
use crate::failure::{Failure, answer, write_error};
use crate::screen::Screen;
use crate::store::{Address, SETTLE_MAX};

/// Measures the speed of a store.
///
/// - free: locks and releases one key repeatedly.
/// - parallel: the same with many tasks, each with its own key.
/// - handover: from a release until the next in line holds, in another process.
/// - crowd: many tasks compete for one key; their waiting times and shares.
#[derive(clap::Args)]
#[command(verbatim_doc_comment, about = "Measures the speed of a store")]
#[command(after_help = "Example:\n  tenure bench --seconds 1")]
pub(crate) struct Args {
    /// Only these cases [possible values: free, parallel, handover, crowd].
    #[arg(value_name = "CASE", value_parser = ["free", "parallel", "handover", "crowd"],
        hide_possible_values = true)]
    cases: Vec<String>,
    /// Maximum time of each case, in seconds.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Number of tasks of `parallel` and `crowd`.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1024))]
    tasks: u64,
}

/// The settings of every case.
pub(crate) struct Bench {
    locks: Locks,
    url: String,
    /// A prefix that only the keys of this run have.
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

    /// Whether other processes can use the store.
    fn is_shared(&self) -> bool {
        self.locks.guarantees().liveness != Liveness::Process
    }

    /// Measures one case; a terminal shows its name meanwhile.
    fn measure(&self, name: &str, case: Case) -> Result<Outcome, Failure> {
        let Some(screen) = Screen::of_errors() else { return case(self) };
        let text = format!("measuring {name}, {} at most", duration::brief(self.time));
        let text = crate::screen::cut(&text, screen.columns.saturating_sub(1));
        write_error(&format!("\r{text}"), SETTLE_MAX);
        let outcome = case(self);
        let blank = " ".repeat(text.chars().count());
        write_error(&format!("\r{blank}\r"), SETTLE_MAX);
        outcome
    }
}

/// Nanoseconds of the clock that all processes of a machine share.
fn now_ns() -> u64 {
    use tenure::engine::Clock as _;
    SystemClock.now().boot_ns
}
