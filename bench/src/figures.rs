//! The rows of a run, and the texts of their figures.

use std::time::{Duration, Instant};

/// The rows of one run.
#[derive(Default)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
}

/// A measured figure, the floor or the peer that it is compared with, and the goal.
#[derive(Clone, Default)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) measured: String,
    pub(crate) beside: String,
    pub(crate) wanted: String,
}

impl Table {
    /// Adds a row, and prints its figure.
    pub(crate) fn row(
        &mut self,
        case: impl Into<String>,
        measured: impl Into<String>,
        beside: impl Into<String>,
        wanted: impl Into<String>,
    ) {
        let row = Row {
            case: case.into(),
            measured: measured.into(),
            beside: beside.into(),
            wanted: wanted.into(),
        };
        eprintln!("{}: {}", row.case, row.measured);
        self.rows.push(row);
    }

    /// Prints the rows as a table.
    pub(crate) fn print(&self) {
        println!("| case | measured | beside | wanted |");
        println!("|---|---|---|---|");
        for Row { case, measured, beside, wanted } in &self.rows {
            println!("| {case} | {measured} | {beside} | {wanted} |");
        }
    }
}

/// The median time of one run of `act`, over `rounds` rounds of `batch` runs each.
pub(crate) fn median_of(rounds: usize, batch: u32, mut act: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..batch {
                act();
            }
            start.elapsed() / batch
        })
        .collect();
    median(&mut times)
}

/// The median.
pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// A time in µs with two decimal places.
pub(crate) fn us(time: Duration) -> String {
    format!("{:.2} µs", time.as_secs_f64() * 1e6)
}

/// A time in ms with two decimal places.
pub(crate) fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// A time in a unit that suits its size.
pub(crate) fn readable(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..1e-3 => format!("{:.0} µs", seconds * 1e6),
        ..1e-1 => format!("{:.1} ms", seconds * 1e3),
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

/// The rate per second of an operation that takes this time.
pub(crate) fn per_second(time: Duration) -> String {
    let nanos = u64::try_from(time.as_nanos()).unwrap();
    format!("{}/s", grouped(1_000_000_000 / nanos))
}

/// A whole number with a comma after each thousand.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The ratio of `times` to `floor`, the median over the rounds.
pub(crate) fn median_ratio(times: &[Duration], floor: &[Duration]) -> f64 {
    let mut ratios: Vec<f64> = times
        .iter()
        .zip(floor)
        .map(|(time, floor)| time.as_secs_f64() / floor.as_secs_f64())
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// The ratio of `time` to `floor`.
pub(crate) fn times(time: Duration, floor: Duration) -> f64 {
    time.as_secs_f64() / floor.as_secs_f64()
}
