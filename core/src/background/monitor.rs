//! A layer that logs when a store stops answering and when it answers again.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tracing::Instrument as _;

use crate::contract::layer::{Layer, Operation};
use crate::lease::figures;
use crate::sync::Mutex;
use crate::wake::contain_panic;
use crate::{Engine, Guarantees, Result, Runtime, Time};

/// Failed requests in a row after which a store counts as unreachable. One alone may be a
/// connection that was closed while it was idle.
const FAILURES_MIN: u32 = 2;

/// Logs `WARN` once when the store stops answering and `INFO` once when it answers again. Each
/// operation has a span at the level `DEBUG`, and its time is a metric.
pub(crate) struct Monitor<E> {
    engine: E,
    runtime: Arc<dyn Runtime>,
    name: &'static str,
    store: String,
    /// The store has answered or failed, so its gauge is set.
    is_known: AtomicBool,
    /// Failed requests since the last answer.
    failed: AtomicU32,
    /// Since when the store is unreachable.
    down: Mutex<Option<Time>>,
}

impl<E: Engine> Monitor<E> {
    pub(crate) fn new(engine: E, runtime: Arc<dyn Runtime>) -> Self {
        let Guarantees { name, store, .. } = engine.guarantees();
        Self {
            engine,
            runtime,
            name,
            store,
            is_known: AtomicBool::new(false),
            failed: AtomicU32::new(0),
            down: Mutex::default(),
        }
    }

    fn hear<T>(&self, outcome: &Result<T>) {
        match outcome {
            Err(error) if error.is_retryable() => {
                if self.failed.fetch_add(1, Ordering::Relaxed) + 1 == FAILURES_MIN {
                    let mut down = self.down.lock();
                    // An answer may have come between the count and the lock.
                    let is_down = self.failed.load(Ordering::Relaxed) >= FAILURES_MIN;
                    if is_down && down.is_none() {
                        *down = Some(self.runtime.now());
                        self.is_known.store(true, Ordering::Relaxed);
                        figures::store_is_up(self.name, &self.store, false);
                        contain_panic(|| {
                            tracing::warn!(store = %self.store, %error, "the store is unreachable");
                        });
                    }
                }
            }
            // A refusal is an answer, too.
            _ if self.failed.load(Ordering::Relaxed) == 0
                && self.is_known.load(Ordering::Relaxed) => {}
            _ => {
                let mut down = self.down.lock();
                self.failed.store(0, Ordering::Relaxed);
                self.is_known.store(true, Ordering::Relaxed);
                figures::store_is_up(self.name, &self.store, true);
                if let Some(since) = down.take() {
                    let after = since.until(self.runtime.now());
                    contain_panic(|| {
                        tracing::info!(store = %self.store, ?after, "the store is back");
                    });
                }
            }
        }
    }
}

impl<E: Engine> Layer for Monitor<E> {
    type Inner = E;

    fn inner(&self) -> &E {
        &self.engine
    }

    async fn intercept<T: Send>(
        &self,
        question: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        // Without metrics the clock is not read.
        let timed = question.verb().filter(|_| cfg!(feature = "metrics"));
        let timed = timed.map(|verb| (verb, self.runtime.now()));
        let outcome = ask.instrument(question.span()).await;
        if let Some((verb, asked)) = timed {
            figures::requested(self.name, verb, &outcome, asked.until(self.runtime.now()));
        }
        self.hear(&outcome);
        outcome
    }
}
