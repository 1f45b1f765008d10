//! What was measured, and the table it is shown in.

use std::time::{Duration, Instant};

/// The rows of one run.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

struct Row {
    case: String,
    median: String,
    beside: String,
    wanted: String,
}

impl Table {
    /// Adds a row: what was measured, what it stands beside, and what is wanted of it.
    pub(crate) fn row(
        &mut self,
        case: impl Into<String>,
        median: impl Into<String>,
        beside: impl Into<String>,
        wanted: impl Into<String>,
    ) {
        let row = Row {
            case: case.into(),
            median: median.into(),
            beside: beside.into(),
            wanted: wanted.into(),
        };
        eprintln!("{}: {}", row.case, row.median);
        self.rows.push(row);
    }

    /// Prints the rows as a table that a README can take as it is.
    pub(crate) fn print(&self) {
        println!("| case | measured | beside | wanted |");
        println!("|---|---|---|---|");
        for Row { case, median, beside, wanted } in &self.rows {
            println!("| {case} | {median} | {beside} | {wanted} |");
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

/// A time with two digits after the point, in µs.
pub(crate) fn us(time: Duration) -> String {
    format!("{:.2} µs", time.as_secs_f64() * 1e6)
}

/// The same in ms.
pub(crate) fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// A time in the unit that a reader expects.
pub(crate) fn readable(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..1e-3 => format!("{:.0} µs", seconds * 1e6),
        ..1e-1 => format!("{:.1} ms", seconds * 1e3),
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

/// How many there are in a second when one takes this long.
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

/// How many times as long as `floor`, in the median over rounds that had both.
pub(crate) fn median_ratio(times: &[Duration], floor: &[Duration]) -> f64 {
    let mut ratios: Vec<f64> = times
        .iter()
        .zip(floor)
        .map(|(time, floor)| time.as_secs_f64() / floor.as_secs_f64())
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// How many times as long as `floor`.
pub(crate) fn times(time: Duration, floor: Duration) -> f64 {
    time.as_secs_f64() / floor.as_secs_f64()
}
