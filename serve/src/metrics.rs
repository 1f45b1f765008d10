//! `GET /metrics`: the state of each store, breaks and requests, as text that Prometheus reads.
//!
//! The text is made here, without the recorder of the `metrics` façade: a program has one recorder
//! at most, and it belongs to the program that mounts the service.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};
use std::sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use tenure_core::toolbox::known_keys;
use tenure_core::{LineEntry, Locks, TicketState};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::api::{Reader, ShownGuarantees};
use crate::breaking::BreakResult;
use crate::reply::{HttpReply, whole};
use crate::service::ServiceState;

/// Minimum time between the end of a reading of all lines and the next one. All scrapes share them.
const READING_PAUSE: Duration = Duration::from_secs(10);
/// Minimum of the same time, as a multiple of the time that the reading took.
const READING_PAUSE_SHARE: u32 = 4;
/// Maximum time for which a scrape waits for the store. It then shows the last reading.
const SCRAPE_MAX: Duration = Duration::from_secs(5);
/// Lines that one reading reads at once.
const LINES_AT_ONCE: usize = 8;
/// Prometheus' text format.
const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counts requests and breaks, and shows them with the state of the store.
pub(crate) struct Exporter {
    readings: Arc<Readings>,
    counts: SyncMutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// By the status of the answer.
    requests: BTreeMap<u16, u64>,
    /// By how and result.
    breaks: BTreeMap<(&'static str, &'static str), u64>,
}

/// The last reading of all lines.
struct Readings {
    locks: Locks,
    /// Held by the one reading in progress.
    turn: Arc<Mutex<()>>,
    last: SyncMutex<Option<LastReading>>,
}

#[derive(Clone, Copy)]
struct LastReading {
    began: Instant,
    ended: Instant,
    /// `None`: the store did not answer.
    sums: Option<Reading>,
}

impl LastReading {
    /// Whether the next reading would be too early.
    fn is_fresh(&self) -> bool {
        let took = self.ended - self.began;
        self.ended.elapsed() < READING_PAUSE.max(took * READING_PAUSE_SHARE)
    }
}

/// The sums of all lines.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    keys: usize,
    /// Keys whose line could not be read.
    unreadable: usize,
    longest_line: usize,
    oldest_hold: Duration,
    oldest_wait: Duration,
    /// Tickets whose number is a time, and the others.
    with_time: usize,
    without_time: usize,
}

impl Exporter {
    pub(crate) fn new(locks: Locks) -> Self {
        let readings = Readings { locks, turn: Arc::default(), last: SyncMutex::default() };
        Self { readings: Arc::new(readings), counts: SyncMutex::default() }
    }

    pub(crate) fn count_request(&self, status: StatusCode) {
        *locked(&self.counts).requests.entry(status.as_u16()).or_default() += 1;
    }

    /// Counts a break that the role and the rate limit permitted.
    pub(crate) fn count_break(&self, force: bool, result: Option<BreakResult>) {
        let how = if force { "forced" } else { "asked" };
        let result = match result {
            Some(BreakResult::Requested) => "requested",
            Some(BreakResult::Leaving) => "leaving",
            Some(BreakResult::Gone) => "gone",
            Some(BreakResult::AnotherTicket) => "another_ticket",
            None => "failed",
        };
        *locked(&self.counts).breaks.entry((how, result)).or_default() += 1;
    }

    /// Returns whether the store answers, and the last reading of its lines.
    async fn read(&self, reader: &Reader) -> (bool, Option<LastReading>) {
        let health = timeout(SCRAPE_MAX, reader.health());
        let (health, reading) = tokio::join!(health, self.readings.get());
        (health.is_ok_and(|(_, health)| health.healthy), reading)
    }

    fn show_counts(&self, text: &mut Exposition) {
        let counts = locked(&self.counts);
        text.family(
            "tenure_http_requests_total",
            "counter",
            "Requests by the status of the answer",
        );
        for (status, count) in &counts.requests {
            text.sample(&[("code", &status.to_string())], count);
        }
        text.family(
            "tenure_http_breaks_total",
            "counter",
            "Breaks that visitors asked for, by result",
        );
        for ((how, result), count) in &counts.breaks {
            text.sample(&[("how", how), ("result", result)], count);
        }
    }
}

/// Returns the metrics of these stores. Each sample has the name of its store as a label.
/// A store without a state is not open yet.
pub(crate) async fn scrape(stores: &[(&str, Option<Arc<ServiceState>>)]) -> HttpReply {
    let reads = stores.iter().map(|(_, state)| async move {
        let state = state.as_deref()?;
        Some((state, state.exporter.read(&state.reader).await))
    });
    let mut text = Exposition::default();
    for ((name, _), read) in stores.iter().zip(join_all(reads).await) {
        text.store = (*name).to_owned();
        let Some((state, (is_up, reading))) = read else {
            show_up(&mut text, &[], false);
            continue;
        };
        if is_up {
            state.ring.store_answered();
        }
        let guarantees = ShownGuarantees::from(state.reader.guarantees());
        show_store(&mut text, &guarantees, is_up, reading);
        state.exporter.show_counts(&mut text);
    }
    whole(StatusCode::OK, KIND, "no-store", text.to_string())
}

fn show_up(text: &mut Exposition, labels: &[(&str, &str)], is_up: bool) {
    text.family("tenure_store_up", "gauge", "Whether the store answers");
    text.sample(labels, u8::from(is_up));
}

fn show_store(
    text: &mut Exposition,
    guarantees: &ShownGuarantees,
    is_up: bool,
    reading: Option<LastReading>,
) {
    let engine = ("engine", guarantees.engine);
    let yes = |is_so| if is_so { "yes" } else { "no" };
    show_up(text, &[engine], is_up);
    text.family("tenure_profile_info", "gauge", "Guarantees of the store, as labels");
    let profile = [
        engine,
        ("ticket_lives_by", guarantees.tickets_live_by),
        ("tokens", guarantees.tokens),
        ("in_order", yes(guarantees.in_order)),
        ("push", yes(guarantees.push)),
        ("failover", yes(guarantees.failover)),
    ];
    text.sample(&profile, 1);
    text.family("tenure_build_info", "gauge", "Version of tenure, as a label");
    text.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    // Numbers of a store that no longer answers would look as if nothing had happened.
    let Some(LastReading { began, sums: Some(reading), .. }) = reading.filter(|_| is_up) else {
        return;
    };
    let mut gauge = |name, help, value: Option<f64>| {
        if let Some(value) = value {
            text.family(name, "gauge", help);
            text.sample(&[engine], value);
        }
    };
    let has_times = reading.with_time > 0 || reading.without_time == 0;
    let seconds = |age: Duration| has_times.then_some(age.as_secs_f64());
    let number = |count| u32::try_from(count).map(f64::from).ok();
    gauge("tenure_store_keys", "Keys with a holder or a waiter", number(reading.keys));
    gauge(
        "tenure_store_unreadable_keys",
        "Keys whose line could not be read",
        number(reading.unreadable),
    );
    gauge(
        "tenure_store_longest_line",
        "Holders and waiters of the key that has most of them",
        number(reading.longest_line),
    );
    gauge(
        "tenure_store_oldest_hold_seconds",
        "Time since the oldest ticket that holds joined its line, or 0",
        seconds(reading.oldest_hold),
    );
    gauge(
        "tenure_store_oldest_wait_seconds",
        "Time since the oldest ticket that waits joined its line, or 0",
        seconds(reading.oldest_wait),
    );
    gauge(
        "tenure_store_reading_age_seconds",
        "Age of the reading that the other numbers are from",
        Some(began.elapsed().as_secs_f64()),
    );
}

impl Readings {
    /// Returns a fresh reading, or the last one if the store needs too long. A reading goes on if
    /// its scrape is dropped.
    async fn get(self: &Arc<Self>) -> Option<LastReading> {
        let read = async {
            let turn = self.turn.clone().lock_owned().await;
            if self.last().is_some_and(|last| last.is_fresh()) {
                return;
            }
            let readings = self.clone();
            let reading = tokio::spawn(async move {
                let began = Instant::now();
                let sums = readings.read().await;
                let ended = Instant::now();
                *locked(&readings.last) = Some(LastReading { began, ended, sums });
                drop(turn);
            });
            if let Err(error) = reading.await {
                tracing::warn!(%error, "the store could not be read for its metrics");
            }
        };
        // The last reading is shown with its age.
        let _ = timeout(SCRAPE_MAX, read).await;
        self.last()
    }

    fn last(&self) -> Option<LastReading> {
        *locked(&self.last)
    }

    /// Reads all lines. `None`: the store does not answer, or the keys cannot be listed.
    async fn read(&self) -> Option<Reading> {
        let (keys, trouble) = match known_keys(self.locks.keys("").await) {
            Ok(listing) => listing,
            Err(error) => {
                tracing::debug!(%error, "the keys cannot be listed for the metrics");
                return None;
            }
        };
        let lines = stream::iter(keys).map(|key| {
            let locks = self.locks.clone();
            async move { locks.line(key).await }
        });
        let mut lines = lines.buffer_unordered(LINES_AT_ONCE);
        let mut sums = Reading::default();
        // At least one line, whose key is not known.
        sums.unreadable += usize::from(trouble.is_some());
        while let Some(line) = lines.next().await {
            match line {
                Ok(line) => sums.add(&line),
                // Each further key would wait for its time limit as well.
                Err(error) if error.is_retryable() => return None,
                Err(_) => {
                    sums.unreadable += 1;
                    sums.keys += 1;
                }
            }
        }
        Some(sums)
    }
}

impl Reading {
    fn add(&mut self, line: &[LineEntry]) {
        // All tickets of a key may have left since the keys were listed.
        self.keys += usize::from(!line.is_empty());
        self.longest_line = self.longest_line.max(line.len());
        for entry in line {
            let Some(since) = entry.since else {
                self.without_time += 1;
                continue;
            };
            self.with_time += 1;
            let oldest = match entry.state {
                TicketState::Holding => &mut self.oldest_hold,
                TicketState::Waiting => &mut self.oldest_wait,
            };
            *oldest = (*oldest).max(since.elapsed().unwrap_or_default());
        }
    }
}

/// The text format of Prometheus, in which the samples of a family stand together.
#[derive(Default)]
struct Exposition {
    families: Vec<Family>,
    /// The position of the family that was begun last.
    current: usize,
    /// The store of the next samples.
    store: String,
}

struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: String,
}

impl Exposition {
    /// Begins a family, or continues it with the samples of another store.
    fn family(&mut self, name: &'static str, kind: &'static str, help: &'static str) {
        let begun = self.families.iter().position(|family| family.name == name);
        self.current = begun.unwrap_or_else(|| {
            self.families.push(Family { name, kind, help, samples: String::new() });
            self.families.len() - 1
        });
    }

    /// Adds a value to the family that was begun last.
    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let store = ("store", self.store.as_str());
        let labels: Vec<_> = labels
            .iter()
            .chain([&store])
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        if let Some(Family { name, samples, .. }) = self.families.get_mut(self.current) {
            // Writing to a String never fails.
            let _ = writeln!(samples, "{name}{{{}}} {value}", labels.join(","));
        }
    }
}

impl Display for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.families.iter().try_for_each(|Family { name, kind, help, samples }| {
            write!(f, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}")
        })
    }
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn locked<T>(mutex: &SyncMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
