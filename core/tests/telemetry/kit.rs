//! A recorder and a subscriber that keep all that is reported, and a store that can be cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write as _};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata as MetricMetadata,
    Recorder, SharedString, Unit,
};
use tenure_core::layers::{Layer, Operation};
use tenure_core::{Error, Memory, Result};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps every event and every span of the process as one line.
#[derive(Default)]
pub(crate) struct Log {
    events: Mutex<Vec<String>>,
    spans: Mutex<Vec<String>>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

pub(crate) static LOG: OnceLock<&'static Log> = OnceLock::new();
static FIGURES: Figures = Figures {
    described: Mutex::new(BTreeSet::new()),
    counts: Mutex::new(BTreeMap::new()),
    gauges: Mutex::new(BTreeMap::new()),
};
/// The recorder and the log belong to the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// The values of metrics, by name and label values.
type Values = Mutex<BTreeMap<String, Arc<AtomicU64>>>;

/// A recorder that counts the values of histograms.
struct Figures {
    described: Mutex<BTreeSet<String>>,
    counts: Values,
    gauges: Values,
}

impl Figures {
    /// The value of this metric, which has a help text.
    fn value(&self, values: &Values, key: &Key) -> Arc<AtomicU64> {
        let name = key.name();
        assert!(self.described.lock().unwrap().contains(name), "{name} has no help text");
        let labels = key.labels().map(|label| format!("{{{}}}", label.value()));
        let name = name.to_owned() + &labels.collect::<String>();
        values.lock().unwrap().entry(name).or_default().clone()
    }

    fn describe(&self, name: &KeyName) {
        self.described.lock().unwrap().insert(name.as_str().to_owned());
    }
}

impl Recorder for &'static Figures {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        self.describe(&name);
    }

    fn register_counter(&self, key: &Key, _: &MetricMetadata<'_>) -> Counter {
        Counter::from_arc(self.value(&self.counts, key))
    }

    fn register_gauge(&self, key: &Key, _: &MetricMetadata<'_>) -> Gauge {
        Gauge::from_arc(self.value(&self.gauges, key))
    }

    fn register_histogram(&self, key: &Key, _: &MetricMetadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(CountedValues(self.value(&self.counts, key))))
    }
}

/// Counts the values of a histogram.
struct CountedValues(Arc<AtomicU64>);

impl HistogramFn for CountedValues {
    fn record(&self, _: f64) {
        CounterFn::increment(&*self.0, 1);
    }
}

impl Subscriber for &'static Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut line = Line(attributes.metadata().name().to_owned());
        attributes.record(&mut line);
        let mut spans = self.spans.lock().unwrap();
        spans.push(line.0);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        let at = usize::try_from(id.into_u64()).unwrap() - 1;
        // A span of an earlier test is gone.
        if let Some(span) = self.spans.lock().unwrap().get_mut(at) {
            *span += &line.0;
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.events.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Runs a test with an empty log. Returns the log and what was counted.
pub(crate) fn observed(test: impl FnOnce()) -> (Vec<String>, BTreeMap<String, u64>) {
    let lock = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let log = *LOG.get_or_init(|| {
        let log: &'static Log = Box::leak(Box::default());
        tracing::subscriber::set_global_default(log).unwrap();
        metrics::set_global_recorder(&FIGURES).unwrap();
        log
    });
    log.events.lock().unwrap().clear();
    log.spans.lock().unwrap().clear();
    // Counters of an earlier test are taken out.
    let _ = counted();
    test();
    let observed = (log.events.lock().unwrap().clone(), counted());
    drop(lock);
    observed
}

/// The values of all gauges, by name and label values.
pub(crate) fn gauges() -> BTreeMap<String, f64> {
    let gauges = FIGURES.gauges.lock().unwrap();
    let read = |value: &AtomicU64| f64::from_bits(value.load(Ordering::SeqCst));
    gauges.iter().map(|(name, value)| (name.clone(), read(value))).collect()
}

/// The spans with this name.
pub(crate) fn spans(name: &str) -> Vec<String> {
    let all = LOG.get().unwrap().spans.lock().unwrap();
    all.iter().filter(|span| span.starts_with(name)).cloned().collect()
}

/// The counts since the last call, by name and label values.
fn counted() -> BTreeMap<String, u64> {
    let counts = FIGURES.counts.lock().unwrap();
    let taken = counts.iter().map(|(name, count)| (name.clone(), count.swap(0, Ordering::SeqCst)));
    taken.filter(|(_, count)| *count > 0).collect()
}

/// A store that can be cut off: its requests fail then.
pub(crate) struct Cut(pub(crate) Memory, pub(crate) Arc<AtomicBool>);

impl Layer for Cut {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    async fn intercept<T: Send>(
        &self,
        _: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if self.1.load(Ordering::SeqCst) {
            return Err(Error::unavailable("the cable is out"));
        }
        ask.await
    }
}

/// Waits until a loss is logged and counted: a guard may hear of it a moment before.
pub(crate) fn until_lost() {
    let log = LOG.get().unwrap();
    while !log.events.lock().unwrap().iter().any(|line| line.contains("a lock was lost")) {
        std::thread::yield_now();
    }
}
