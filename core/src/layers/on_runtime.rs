//! An engine on a thread of its own: its verbs go on whatever the caller's threads do.

mod joins;

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

/// How many verbs may be on their way to the host at a time, but for those that only wait. A host that has no time
/// does not even find out that a caller has gone.
const VERBS_MAX: usize = 512;

/// Sends every verb to a host, and the answer back. The futures it gives may be awaited on any
/// executor; a verb whose future is dropped is given up, so its outcome is unknown, as the contract says.
///
/// An engine that can also be called from where its caller is saves the way there and back: see
/// [`in_place_where`](OnRuntime::in_place_where).
///
/// ```
/// use std::sync::Arc;
///
/// use tenure::{Locks, engine::{Memory, BackgroundRuntime, OnRuntime}};
///
/// # tenure::blocking::block_on(async {
/// let host = Arc::new(BackgroundRuntime::for_drivers());
/// let engine = OnRuntime::make(host.clone(), async { Ok(Memory::new()) }).await?;
/// let locks = Locks::on(engine, host);
/// let guard = locks.mutex("invoices/42").lock().await?;
/// guard.release().await?;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub struct OnRuntime<E> {
    engine: Arc<E>,
    host: Arc<dyn Runtime>,
    in_place: fn(&E) -> bool,
    /// For those who are in place.
    room_in_place: Semaphore,
    waits_in_place: fn(&E) -> bool,
    room: Arc<Semaphore>,
    joins: Joins,
    /// What the engine's profile says.
    answers_within: Duration,
}

impl<E: Engine> OnRuntime<E> {
    /// Makes the engine where it is to live.
    pub async fn make(
        host: Arc<dyn Runtime>,
        make: impl Future<Output = Result<E>> + Send + 'static,
    ) -> Result<Self> {
        host.ready()?;
        let engine = carry_out(&*host, make).await?;
        Ok(Self::of(host, engine))
    }

    /// The same for an engine that was made there.
    pub fn of(host: Arc<dyn Runtime>, engine: E) -> Self {
        let room = Arc::new(Semaphore::new(VERBS_MAX));
        let (joins, answers_within) = (Joins::default(), engine.guarantees().answers_within);
        Self {
            engine: Arc::new(engine),
            host,
            in_place: |_| false,
            room_in_place: Semaphore::new(0),
            waits_in_place: |_| false,
            room,
            joins,
            answers_within,
        }
    }

    /// Verbs are carried out in place whenever the engine answers that it can, which it is asked each
    /// time by whoever calls. Such a verb ends with its future, as the contract allows.
    ///
    /// So many of them at a time, and more of them on the host: a verb in place goes on only while somebody polls its future, and
    /// those that nobody polls must not use up what the engine's other callers need.
    #[must_use]
    pub fn in_place_where(self, in_place: fn(&E) -> bool, at_most: usize) -> Self {
        let room_in_place = Semaphore::new(at_most);
        Self { in_place, waits_in_place: in_place, room_in_place, ..self }
    }

    /// Verbs that only wait are carried out on the host, whatever the others are: for engines that hear of news on the host, and
    /// ask the store before they pass it on.
    #[must_use]
    pub fn waits_on_host(self) -> Self {
        Self { waits_in_place: |_| false, ..self }
    }

    /// The engine itself.
    pub fn inner(&self) -> &E {
        &self.engine
    }

    async fn ask<T, F>(&self, verb: impl FnOnce(Arc<E>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        // The way to the host stands in a box, so that who is asked in place does not carry it along.
        if let Some(_here) = self.in_place() {
            return verb(self.engine.clone()).await;
        }
        Box::pin(self.ask_host(verb(self.engine.clone()))).await
    }

    /// A place for whoever calls, if the engine can be called from there.
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
        let answer = self.ask_host(verb).await;
        join.came_to(&answer);
        answer
    }

    /// From now until nothing comes of a join of this ticket any more. A join may take longer than its ticket would live.
    fn goes_on(&self, ticket: &Ticket) -> Range<Time> {
        let now = self.host.now();
        now..now.plus(ticket.ttl.max(self.answers_within))
    }

    async fn ask_host<T: Send + 'static>(
        &self,
        verb: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        if let Ok(room) = self.room.clone().try_acquire_owned() {
            return self.ask_in(room, verb).await;
        }
        // Whoever has to wait for room has no more time than the others, and is sent while enough of it
        // is left for an answer: half. A verb that is sent later would only keep the next ones out.
        let within = self.answers_within;
        let late = self.host.sleep(within);
        let room = match select(
            self.host.sleep(within / 2),
            pin!(self.room.clone().acquire_owned()),
        )
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
        carry_out(&*self.host, async move {
            let outcome = verb.await;
            drop(room);
            outcome
        })
        .await
    }

    /// The same for a verb that only waits.
    async fn wait<T, F>(&self, verb: impl FnOnce(Arc<E>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        if (self.waits_in_place)(&self.engine) {
            return verb(self.engine.clone()).await;
        }
        Box::pin(carry_out(&*self.host, verb(self.engine.clone()))).await
    }
}

/// A verb that is carried out where it was asked for, and the room for it.
struct InPlace<'a> {
    _room: SemaphorePermit<'a>,
}

/// Runs a verb on the host for as long as somebody waits for its answer.
fn carry_out<T, F>(
    host: &dyn Runtime,
    verb: F,
) -> impl Future<Output = Result<T>> + Send + use<T, F>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let answer = spawn_cancellable(host, verb);
    async move { answer.await.unwrap_or_else(|| Err(gone())) }
}

fn crowded(within: Duration) -> Error {
    Error::unavailable(format!(
        "so much is asked of the store that it had no answer to this within {}",
        shown(within)
    ))
}

fn gone() -> Error {
    Error::unavailable("the thread that speaks to the store ended before it had an answer")
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
        self.ask(move |engine| async move { engine.renew(&ticket).await }).await
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let never_began = self.joins.never_began(ticket.id, self.host.now());
        let mut left = if let Some(_here) = self.in_place() {
            self.engine.leave(ticket, how).await?
        } else {
            let leaving = ticket.clone();
            let verb = |engine: Arc<E>| async move { engine.leave(&leaving, how).await };
            Box::pin(self.ask_host(verb(self.engine.clone()))).await?
        };
        if never_began && left == LeaveOutcome::Absent {
            // It waited for the host, and nobody need look whether it comes to the store later.
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
        self.ask(move |engine| async move { engine.line(&key).await }).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let prefix = prefix.to_owned();
        self.ask(move |engine| async move { engine.keys(&prefix).await }).await
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        let key = key.clone();
        self.ask(move |engine| async move { engine.add(&key, by, window).await }).await
    }

    async fn close(&self) {
        let engine = self.engine.clone();
        let closed = carry_out(&*self.host, async move {
            engine.close().await;
            Ok(())
        });
        if let Err(error) = closed.await {
            tracing::warn!(%error, "the engine was not closed");
        }
    }
}
