//! A layer that repeats operations whose answers were lost. Promise 4, twice is once, makes that
//! safe.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::background::retries::Retries;
use crate::event::{Cursor, EventBatch, Scope};
use crate::lease::span::shown;
use crate::{
    CounterValue, Engine, Error, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Runtime,
    Ticket, TicketState, WaitMode, Wake, Window,
};

/// Repeats an operation whose outcome is unknown, a few times, with growing pauses. All attempts
/// together take at most twice the time of one.
///
/// It repeats neither a join nor a windowed count. The [`Locks`](crate::Locks) repeat a join,
/// because they know when the ticket has to leave again: see
/// [`Locks::with_retries`](crate::Locks::with_retries). A windowed count would count twice.
///
/// ```
/// use std::sync::Arc;
///
/// use tenure::engine::{BackgroundRuntime, Engine, Memory, Retries, Retry};
///
/// # tenure::blocking::block_on(async {
/// let runtime = Arc::new(BackgroundRuntime::for_timers());
/// let engine = Retry::new(Memory::new(), runtime, Retries::times(4));
/// assert!(engine.keys("invoices/").await?.is_empty());
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub struct Retry<E> {
    engine: E,
    runtime: Arc<dyn Runtime>,
    retries: Retries,
    /// Maximum time of all attempts together.
    within: Duration,
}

impl<E: Engine> Retry<E> {
    /// Retries of this engine.
    pub fn new(engine: E, runtime: Arc<dyn Runtime>, retries: Retries) -> Self {
        let within = engine.guarantees().answers_within.saturating_mul(2);
        Self { engine, runtime, retries, within }
    }

    /// The inner engine.
    pub fn inner(&self) -> &E {
        &self.engine
    }

    /// Repeats an operation that reads, or whose repetition is the same.
    async fn again<T, F: Future<Output = Result<T>>>(
        &self,
        request: impl FnMut() -> F,
    ) -> Result<T> {
        self.retries.run(&*self.runtime, self.within, request).await
    }

    /// Repeats an operation that changes a line.
    async fn change<T, F: Future<Output = Result<T>>>(
        &self,
        request: impl FnMut(u32) -> F,
    ) -> Result<T> {
        let sent = self.retries.attempts(&*self.runtime, self.within, request);
        let (outcome, attempts) = sent.await;
        attempts.outcome(outcome)
    }
}

impl<E: Engine> Engine for Retry<E> {
    fn guarantees(&self) -> Guarantees {
        Guarantees { answers_within: self.within, ..self.engine.guarantees() }
    }

    async fn join(&self, ticket: &Ticket, mode: WaitMode) -> Result<Option<Place>> {
        self.engine.join(ticket, mode).await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.again(|| self.engine.renew(ticket)).await
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        self.change(|before| async move {
            match self.engine.leave(ticket, how).await {
                Ok(LeaveOutcome::Absent) if before > 0 => Ok(LeaveOutcome::Unsure),
                answer => answer,
            }
        })
        .await
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        self.engine.watch(ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        let mut failing = None;
        loop {
            let asked = self.runtime.now();
            let error = match self.engine.events(scope, after).await {
                Err(error) if error.is_retryable() => error,
                batch => return batch,
            };
            // Each call has no time limit, because it waits for events. A call that ran for longer
            // than the limit counts as a success.
            if asked.until(self.runtime.now()) > self.within {
                failing = None;
            }
            let attempts =
                failing.get_or_insert_with(|| self.retries.begin(&*self.runtime, self.within));
            if !attempts.pause(&*self.runtime).await? {
                return Err(error);
            }
        }
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.again(|| self.engine.line(key)).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.runtime.ready()?;
        // A listing has many steps, each within its own time limit.
        let listed = self.again(|| self.engine.keys(prefix));
        match select(pin!(listed), self.runtime.sleep(self.within)).await {
            Either::Left((keys, _)) => keys,
            Either::Right(_) => Err(Error::unavailable(format!(
                "{} did not list its keys within {}: use a longer timeout, or fewer keys",
                self.guarantees().store,
                shown(self.within)
            ))),
        }
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        match window {
            Some(_) => self.engine.add(key, by, window).await,
            None => self.change(|_| self.engine.add(key, by, None)).await,
        }
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        self.change(|_| self.engine.swap(key, seen, value)).await
    }

    async fn close(&self) {
        self.engine.close().await;
    }
}

impl<E: Engine> fmt::Debug for Retry<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("engine", &self.engine.guarantees().name)
            .finish_non_exhaustive()
    }
}
