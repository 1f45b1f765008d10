//! Every loss of a guard is counted and logged, with its cause, and so is a store that is away.

#![cfg(feature = "metrics")]

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tenure_core::blocking::block_on;
use tenure_core::layers::{Layer, Operation};
use tenure_core::{Error, Locks, Loss, Memory, Result};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps every event of the process as one line.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

static LOG: OnceLock<&'static Log> = OnceLock::new();
static FIGURES: OnceLock<Snapshotter> = OnceLock::new();
/// The recorder and the log belong to the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

impl Subscriber for &'static Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Line(String);
        impl Visit for Line {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                write!(self.0, " {}={value:?}", field.name()).unwrap();
            }
        }
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Runs a test with an empty log. Returns the log and what was counted.
fn observed(test: impl FnOnce()) -> (Vec<String>, BTreeMap<String, u64>) {
    let lock = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let log = *LOG.get_or_init(|| {
        let log: &'static Log = Box::leak(Box::default());
        tracing::subscriber::set_global_default(log).unwrap();
        let recorder = DebuggingRecorder::new();
        assert!(FIGURES.set(recorder.snapshotter()).is_ok());
        recorder.install().unwrap();
        log
    });
    log.0.lock().unwrap().clear();
    // Counters of an earlier test are taken out.
    let _ = counted();
    test();
    let observed = (log.0.lock().unwrap().clone(), counted());
    drop(lock);
    observed
}

/// The counts since the last call, by name and label value.
fn counted() -> BTreeMap<String, u64> {
    let figures = FIGURES.get().unwrap().snapshot().into_vec().into_iter();
    let counted = figures.map(|(key, _, description, value)| {
        assert!(description.is_some(), "{} has a help text", key.key().name());
        let labels: Vec<_> =
            key.key().labels().map(|label| format!("{{{}}}", label.value())).collect();
        let count = match value {
            DebugValue::Counter(count) => count,
            DebugValue::Histogram(values) => values.len() as u64,
            DebugValue::Gauge(_) => 0,
        };
        (format!("{}{}", key.key().name(), labels.concat()), count)
    });
    counted.filter(|(_, count)| *count > 0).collect()
}

/// A store that can be cut off: its requests fail then.
struct Cut(Memory, Arc<AtomicBool>);

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
fn until_lost() {
    let log = LOG.get().unwrap();
    while !log.0.lock().unwrap().iter().any(|line| line.contains("a lock was lost")) {
        std::thread::yield_now();
    }
}

/// The one log line about a loss.
fn loss_in(log: &[String]) -> &str {
    let losses: Vec<_> = log.iter().filter(|line| line.contains("a lock was lost")).collect();
    assert_eq!(losses.len(), 1, "a loss is logged once: {log:#?}");
    losses[0]
}

fn loses(cause: &str, reason: Loss, test: impl FnOnce(&Locks)) {
    let (log, counted) = observed(|| {
        test(&Locks::new(Memory::new()));
        until_lost();
    });
    let line = loss_in(&log);
    assert!(line.starts_with("WARN ") && line.contains("key=k"), "{line}");
    assert!(line.contains(&format!("reason={reason}")), "{line}");
    assert!(line.contains("token=") && line.contains("held_for="), "{line}");
    assert_eq!(counted[&format!("tenure_losses_total{{{cause}}}")], 1, "{counted:?}");
    assert_eq!(counted["tenure_hold_seconds"], 1, "{counted:?}");
}

#[test]
fn a_polite_break_is_counted_and_logged() {
    loses("broken", Loss::Broken, |locks| {
        let guard = block_on(locks.mutex("k").lock()).unwrap();
        block_on(locks.break_ticket("k", guard.id())).unwrap();
        assert_eq!(block_on(guard.lost()), Loss::Broken);
    });
}

#[test]
fn a_ticket_that_is_gone_is_counted_by_whichever_finds_out_first() {
    loses("broken", Loss::Broken, |locks| {
        let guard = block_on(locks.mutex("k").lock()).unwrap();
        block_on(locks.force_unlock("k", guard.id())).unwrap();
        assert!(block_on(guard.extend()).is_err(), "a renewal finds out");
        assert!(block_on(guard.release()).is_err(), "and the release reports it again");
    });
    // Renewed by hand and not watched: only the release asks the store.
    loses("broken", Loss::Broken, |locks| {
        let guard = block_on(locks.mutex("k").manual_renewal().lock()).unwrap();
        block_on(locks.force_unlock("k", guard.id())).unwrap();
        assert_eq!(block_on(guard.release()).unwrap_err().loss(), Some(Loss::Broken));
    });
    loses("broken", Loss::Broken, |locks| {
        let guard = block_on(locks.mutex("k").manual_renewal().lock()).unwrap();
        block_on(locks.force_unlock("k", guard.id())).unwrap();
        drop(guard);
        block_on(locks.flush());
    });
}

#[test]
fn a_hold_that_is_too_long_and_one_of_closed_locks_are_counted_and_logged() {
    loses("held_too_long", Loss::HeldTooLong, |locks| {
        let limit = Duration::from_millis(20);
        let guard = block_on(locks.mutex("k").max_hold(limit).lock()).unwrap();
        assert_eq!(block_on(guard.lost()), Loss::HeldTooLong);
    });
    loses("closed", Loss::Closed, |locks| {
        let guard = block_on(locks.mutex("k").lock()).unwrap();
        let closing = std::thread::spawn({
            let locks = locks.clone();
            move || block_on(locks.close())
        });
        assert_eq!(block_on(guard.lost()), Loss::Closed);
        assert!(guard.check().is_err());
        drop(guard);
        closing.join().unwrap();
    });
}

#[test]
fn a_store_that_is_away_is_logged_once_and_so_is_its_return() {
    let (log, counted) = observed(|| {
        let cut = Arc::new(AtomicBool::new(false));
        let locks = Locks::new(Cut(Memory::new(), cut.clone()));
        let mutex = locks.mutex("k").ttl(Duration::from_millis(600));
        let guard = block_on(mutex.lock()).unwrap();
        cut.store(true, Ordering::SeqCst);
        assert_eq!(block_on(guard.lost()), Loss::Unreachable);
        until_lost();
        for _ in 0..10 {
            assert!(block_on(locks.line("k")).is_err());
        }
        cut.store(false, Ordering::SeqCst);
        for _ in 0..10 {
            block_on(locks.line("k")).unwrap();
        }
    });
    assert!(loss_in(&log).contains(&format!("reason={}", Loss::Unreachable)));
    assert_eq!(counted["tenure_losses_total{unreachable}"], 1);
    let of = |level: &str| log.iter().filter(|line| line.starts_with(level)).count();
    assert_eq!(of("WARN"), 2, "the loss and the store: {log:#?}");
    assert!(log.iter().any(|line| line.contains("the store is unreachable")), "{log:#?}");
    assert!(
        log.iter().any(|line| line.starts_with("INFO") && line.contains("is back")),
        "{log:#?}"
    );
    assert_eq!((of("INFO"), of("DEBUG")), (1, 0), "{log:#?}");
}

#[test]
fn waits_holds_renewals_and_hand_overs_are_counted_and_a_release_is_no_loss() {
    let (log, counted) = observed(|| {
        let locks = Locks::new(Memory::new());
        let first = block_on(locks.mutex("k").lock()).unwrap();
        let mut waiting = Box::pin(locks.mutex("k").lock());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        block_on(first.extend()).unwrap();
        block_on(first.release()).unwrap();
        drop(block_on(waiting).unwrap());
        block_on(locks.flush());
    });
    assert!(log.is_empty(), "{log:#?}");
    assert_eq!(counted.keys().filter(|name| name.contains("losses")).count(), 0, "{counted:?}");
    for (name, count) in
        [("tenure_wait_seconds", 2), ("tenure_hold_seconds", 2), ("tenure_handovers_total", 1)]
    {
        assert_eq!(counted[name], count, "{name}: {counted:?}");
    }
    assert!(counted["tenure_renewals_total{kept}"] >= 1, "{counted:?}");
}
