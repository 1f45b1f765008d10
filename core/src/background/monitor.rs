//! A layer that logs when a store stops answering and when it answers again.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tracing::Instrument as _;

use crate::contract::layer::{Layer, Operation};
use crate::sync::Mutex;
use crate::{Engine, Result, Runtime, Time};

/// Failed requests in a row after which a store counts as unreachable. One alone may be a
/// connection that was closed while it was idle.
const FAILURES_MIN: u32 = 2;

/// Logs `WARN` once when the store stops answering and `INFO` once when it answers again. Each
/// operation has a span at the level `DEBUG`.
pub(crate) struct Monitor<E> {
    engine: E,
    runtime: Arc<dyn Runtime>,
    store: String,
    /// Failed requests since the last answer.
    failed: AtomicU32,
    /// Since when the store is unreachable.
    down: Mutex<Option<Time>>,
}

impl<E: Engine> Monitor<E> {
    pub(crate) fn new(engine: E, runtime: Arc<dyn Runtime>) -> Self {
        let store = engine.guarantees().store;
        Self { engine, runtime, store, failed: AtomicU32::new(0), down: Mutex::default() }
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
                        tracing::warn!(store = %self.store, %error, "the store is unreachable");
                    }
                }
            }
            // A refusal is an answer, too.
            _ if self.failed.load(Ordering::Relaxed) == 0 => {}
            _ => {
                let mut down = self.down.lock();
                self.failed.store(0, Ordering::Relaxed);
                if let Some(since) = down.take() {
                    let after = since.until(self.runtime.now());
                    tracing::info!(store = %self.store, ?after, "the store is back");
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
        let outcome = ask.instrument(question.span()).await;
        self.hear(&outcome);
        outcome
    }
}
