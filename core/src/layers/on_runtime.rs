//! An engine on a background runtime: its operations continue while the caller's threads are
//! blocked.

mod joins;

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use self::joins::Joins;
use crate::event::{Cursor, EventBatch, Scope};
use crate::lease::span::shown;
use crate::{
    CounterValue, Engine, Error, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Runtime,
    Ticket, TicketState, Time, WaitMode, Wake, Window, spawn_cancellable,
};

/// Maximum renewals and leaves in flight on the runtime, and maximum other operations. Watches and
/// events are not counted. A busy runtime notices late that a caller is gone.
const VERBS_MAX: usize = 512;

/// Runs every operation on a runtime, and returns the answer. The futures may be awaited on any
/// executor. Dropping one cancels the operation, and its outcome is unknown, as in the contract.
///
/// An engine that can also be called on the caller's task avoids two changes of thread: see
/// [`in_place_where`](OnRuntime::in_place_where).
///
/// ```
/// use std::sync::Arc;
///
/// use tenure::engine::{Memory, BackgroundRuntime, OnRuntime};
/// use tenure::Locks;
///
/// # tenure::blocking::block_on(async {
/// let runtime = Arc::new(BackgroundRuntime::for_drivers());
/// let engine = OnRuntime::make(runtime.clone(), async { Ok(Memory::new()) }).await?;
/// let locks = Locks::on(engine, runtime);
/// let guard = locks.mutex("invoices/42").lock().await?;
/// guard.release().await?;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub struct OnRuntime<E> {
    engine: Arc<E>,
    runtime: Arc<dyn Runtime>,
    in_place: fn(&E) -> bool,
    /// Places for operations on the callers' tasks.
    room_in_place: Semaphore,
    waits_in_place: fn(&E) -> bool,
    room: Arc<Semaphore>,
    /// Places for renewals and leaves. Operations that hang on a record must not delay them.
    room_to_keep: Arc<Semaphore>,
    joins: Joins,
    /// The engine's own value.
    answers_within: Duration,
}

impl<E: Engine> OnRuntime<E> {
    /// Makes the engine on the runtime.
    ///
    /// # Errors
    ///
    /// The error of `make`, or the runtime cannot run tasks.
    pub async fn make(
        runtime: Arc<dyn Runtime>,
        make: impl Future<Output = Result<E>> + Send + 'static,
    ) -> Result<Self> {
        runtime.ready()?;
        let engine = carry_out(&*runtime, make).await?;
        Ok(Self::of(runtime, engine))
    }

    /// Wraps an engine that was made on the runtime.
    pub fn of(runtime: Arc<dyn Runtime>, engine: E) -> Self {
        let room = || Arc::new(Semaphore::new(VERBS_MAX));
        let (joins, answers_within) = (Joins::default(), engine.guarantees().answers_within);
        Self {
            engine: Arc::new(engine),
            runtime,
            in_place: |_| false,
            room_in_place: Semaphore::new(0),
            waits_in_place: |_| false,
            room: room(),
            room_to_keep: room(),
            joins,
            answers_within,
        }
    }

    /// Runs an operation on the caller's task when `in_place` allows it. Dropping its future ends
    /// it.
    ///
    /// At most `at_most` operations run on callers' tasks at once; further ones run on the runtime.
    /// A caller that stops polling would otherwise occupy a connection for good.
    #[must_use]
    pub fn in_place_where(self, in_place: fn(&E) -> bool, at_most: usize) -> Self {
        let room_in_place = Semaphore::new(at_most);
        Self { in_place, waits_in_place: in_place, room_in_place, ..self }
    }

    /// Runs `watch` and `events` on the runtime always. For engines whose notifications arrive
    /// there.
    #[must_use]
    pub fn waits_on_host(self) -> Self {
        Self { waits_in_place: |_| false, ..self }
    }

    /// The inner engine.
    pub fn inner(&self) -> &E {
        &self.engine
    }

    async fn ask<T, F>(&self, room: &Arc<Semaphore>, verb: impl FnOnce(Arc<E>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        // Boxed, so that an operation on the caller's task has a smaller future.
        if let Some(_here) = self.in_place() {
            return verb(self.engine.clone()).await;
        }
        Box::pin(self.ask_host(room, verb(self.engine.clone()))).await
    }

    /// A place on the caller's task, if the engine can be called there.
    fn in_place(&self) -> Option<InPlace<'_>> {
        if !(self.in_place)(&self.engine) {
            return None;
        }
        Some(InPlace { _room: self.room_in_place.try_acquire().ok()? })
    }

    async fn join_on_host(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        let (join, state) = self.joins.ask(ticket.id, self.goes_on(ticket));
        let (ticket, engine) = (ticket.clone(), self.engine.clone());
        let verb = async move {
            if state.begin() { engine.join(&ticket, patience).await } else { Err(gone()) }
        };
        let answer = self.ask_host(&self.room, verb).await;
        join.came_to(&answer);
        answer
    }

    /// The time in which a join of this ticket may still happen. A join may take longer than the
    /// ttl.
    fn goes_on(&self, ticket: &Ticket) -> Range<Time> {
        let now = self.runtime.now();
        now..now.plus(ticket.ttl.max(self.answers_within))
    }

    async fn ask_host<T: Send + 'static>(
        &self,
        room: &Arc<Semaphore>,
        verb: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        if let Ok(room) = room.clone().try_acquire_owned() {
            return self.ask_in(room, verb).await;
        }
        // The time limit includes the wait for a place. Half of it is left for the answer: an
        // operation that is sent later would only delay the next ones.
        let within = self.answers_within;
        let late = self.runtime.sleep(within);
        let room = match select(self.runtime.sleep(within / 2), pin!(room.clone().acquire_owned()))
            .await
        {
            Either::Left(_) => return Err(crowded(within)),
            Either::Right((room, _)) => room.map_err(|_| gone())?,
        };
        match select(late, pin!(self.ask_in(room, verb))).await {
            Either::Left(_) => Err(crowded(within)),
            Either::Right((outcome, _)) => outcome,
        }
    }

    async fn ask_in<T: Send + 'static>(
        &self,
        room: OwnedSemaphorePermit,
        verb: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        carry_out(&*self.runtime, async move {
            let outcome = verb.await;
            drop(room);
            outcome
        })
        .await
    }

    /// Runs an operation that only waits.
    async fn wait<T, F>(&self, verb: impl FnOnce(Arc<E>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        if (self.waits_in_place)(&self.engine) {
            return verb(self.engine.clone()).await;
        }
        Box::pin(carry_out(&*self.runtime, verb(self.engine.clone()))).await
    }
}

/// An operation on the caller's task, with its place.
struct InPlace<'a> {
    _room: SemaphorePermit<'a>,
}

/// Runs an operation on the runtime until its caller drops the future.
fn carry_out<T, F>(
    runtime: &dyn Runtime,
    verb: F,
) -> impl Future<Output = Result<T>> + Send + use<T, F>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let answer = spawn_cancellable(runtime, verb);
    async move { answer.await.unwrap_or_else(|| Err(gone())) }
}

fn crowded(within: Duration) -> Error {
    Error::unavailable(format!("too many requests in flight: no answer within {}", shown(within)))
}

fn gone() -> Error {
    Error::unavailable("the runtime ended before the store answered")
}

impl<E: Engine> Engine for OnRuntime<E> {
    fn guarantees(&self) -> Guarantees {
        Guarantees { quick: false, ..self.engine.guarantees() }
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        let Some(_here) = self.in_place() else {
            return Box::pin(self.join_on_host(ticket, patience)).await;
        };
        let join = self.joins.begin_in_place(ticket.id, self.goes_on(ticket));
        let answer = self.engine.join(ticket, patience).await;
        join.came_to(&answer);
        answer
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let ticket = ticket.clone();
        self.ask(&self.room_to_keep, move |engine| async move { engine.renew(&ticket).await }).await
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let never_began = self.joins.never_began(ticket.id, self.runtime.now());
        let leaving = ticket.clone();
        let leave = |engine: Arc<E>| async move { engine.leave(&leaving, how).await };
        let mut left = self.ask(&self.room_to_keep, leave).await?;
        if never_began && left == LeaveOutcome::Absent {
            // The join never reached the engine, so it cannot happen later.
            left = LeaveOutcome::Waiting;
        }
        self.joins.forget(ticket.id);
        Ok(left)
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        let ticket = ticket.clone();
        self.wait(move |engine| async move { engine.watch(&ticket, seen).await }).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        let scope = scope.clone();
        self.wait(move |engine| async move { engine.events(&scope, after).await }).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let key = key.clone();
        self.ask(&self.room, move |engine| async move { engine.line(&key).await }).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let prefix = prefix.to_owned();
        self.ask(&self.room, move |engine| async move { engine.keys(&prefix).await }).await
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        let key = key.clone();
        self.ask(&self.room, move |engine| async move { engine.add(&key, by, window).await }).await
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        let (key, seen, value) = (key.clone(), seen.to_owned(), value.to_owned());
        self.ask(&self.room, move |engine| async move { engine.swap(&key, &seen, &value).await })
            .await
    }

    async fn close(&self) {
        let engine = self.engine.clone();
        let closed = carry_out(&*self.runtime, async move {
            engine.close().await;
            Ok(())
        });
        if let Err(error) = closed.await {
            tracing::warn!(%error, "the engine was not closed");
        }
    }
}

impl<E: Engine> fmt::Debug for OnRuntime<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnRuntime")
            .field("engine", &self.engine.guarantees().name)
            .finish_non_exhaustive()
    }
}
