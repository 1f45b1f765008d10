//! The charts of the README: one SVG file for each question, one row for each lock, on a log axis.

use std::fmt::Write as _;
use std::time::Duration;

use crate::figures::readable;
use crate::results::{Results, time};

/// A question that a chart answers.
pub(crate) struct Question {
    pub(crate) file: &'static str,
    pub(crate) title: &'static str,
    pub(crate) case: &'static str,
}

pub(crate) const QUESTIONS: [Question; 4] = [
    Question {
        file: "free-lock.svg",
        title: "A free lock: time of a lock and a release",
        case: "lock + release",
    },
    Question {
        file: "hand-over.svg",
        title: "A hand-over: time from the release in one process to the lock in another",
        case: "hand-over between two processes",
    },
    Question {
        file: "thousand-waiters.svg",
        title: "A thousand waiters: time of each hand-over while 1,000 wait",
        case: "1,000 wait, and leave as soon as they hold",
    },
    Question {
        file: "take-over.svg",
        title: "Take-over: time from the kill of the holder to the lock of the waiter, ttl 5 s",
        case: "take-over after a crash",
    },
];

/// The stores, by the names with which their rows start.
pub(crate) const STORES: [&str; 11] = [
    "memory",
    "file",
    "redis",
    "redlock",
    "mongodb",
    "postgres",
    "mariadb",
    "etcd",
    "etcd, three members",
    "zookeeper",
    "zookeeper, three servers",
];

const NAMES: f64 = 190.0;
const LABELS: f64 = 400.0;
const PLOT: f64 = 420.0;
const VALUES: f64 = 80.0;
const ROW: f64 = 20.0;
const HEAD: f64 = 56.0;

/// One lock in a chart: its store if it is the store's first, its name, and its time.
struct Line<'a> {
    store: &'a str,
    name: &'a str,
    time: Duration,
}

/// Draws the chart of a question.
pub(crate) fn draw(results: &Results, question: &Question) -> String {
    let lines: Vec<Line<'_>> =
        STORES.iter().flat_map(|store| lines(results, store, question)).collect();
    let decade = |time: &Duration| time.as_secs_f64().log10();
    let (least, most) = lines.iter().fold((f64::MAX, f64::MIN), |(least, most), line| {
        (least.min(decade(&line.time).floor()), most.max(decade(&line.time).ceil()))
    });
    let x = |decade: f64| LABELS + PLOT * (decade - least) / (most - least).max(1.0);
    #[allow(clippy::cast_precision_loss, reason = "a chart has fewer than 100 lines")]
    let height = HEAD + ROW * (lines.len() as f64 + 1.0);
    let mut svg = String::new();
    let width = LABELS + PLOT + VALUES;
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    )
    .unwrap();
    text(&mut svg, 10.0, 22.0, "#111\" font-weight=\"bold", question.title);
    let mut mark = least;
    while lines.len() > 1 && mark <= most {
        let (at, end) = (x(mark), height - ROW / 2.0);
        writeln!(svg, "<path d=\"M{at:.1} {HEAD}V{end}\" stroke=\"#ddd\"/>").unwrap();
        text(
            &mut svg,
            at - 16.0,
            HEAD - 8.0,
            "#555",
            &readable(Duration::from_secs_f64(10_f64.powf(mark))),
        );
        mark += 1.0;
    }
    let mut y = HEAD;
    for Line { store, name, time } in &lines {
        y += ROW;
        let (colour, at) = (colour(name), x(decade(time)));
        if !store.is_empty() {
            text(&mut svg, 10.0, y, "#111\" font-weight=\"bold", store);
        }
        text(&mut svg, NAMES, y, colour, name);
        let (middle, label) = (y - 4.0, at + 10.0);
        writeln!(
            svg,
            "<path d=\"M{LABELS} {middle}H{at:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <circle cx=\"{at:.1}\" cy=\"{middle}\" r=\"5\" fill=\"{colour}\"/>"
        )
        .unwrap();
        text(&mut svg, label, y, "#111", &readable(*time));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The locks of a store that have a time: the floor, Tenure, and the peers.
fn lines<'a>(results: &'a Results, store: &'a str, question: &Question) -> Vec<Line<'a>> {
    let rows = results.of_case(store, question.case).into_iter();
    let mut lines: Vec<_> = rows
        .filter_map(|(name, row)| {
            let name = if name.ends_with("the floor") { "the floor" } else { name };
            Some(Line { store: "", name, time: time(&row.measured)? })
        })
        .collect();
    if let Some(first) = lines.first_mut() {
        first.store = store;
    }
    lines
}

fn colour(name: &str) -> &'static str {
    match name {
        "tenure" => "#b3341f",
        "the floor" => "#888",
        _ => "#2f6db3",
    }
}

fn text(svg: &mut String, x: f64, y: f64, fill: &str, text: &str) {
    let text = text.replace('`', "").replace('&', "&amp;").replace('<', "&lt;");
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{fill}\">{text}</text>").unwrap();
}
