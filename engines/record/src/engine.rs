//! The ten verbs of an engine, on a store of records.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::sync::Mutex;
use tenure_core::{
    Backoff, CounterValue, Engine, ExpiringMap, Guarantees, Key, LeaveMode, LeaveOutcome, Place,
    Result, Runtime, Sampler, Ticket, TicketState, Time, WaitMode, Wake, Window, jitter,
};
use tenure_kit::subscriptions::Notification;

use crate::batch::LineBatcher;
use crate::contract::RecordStore;
use crate::listener::NoticeListener;
use crate::open_line::{LineAnswer, LineRequest, LineVerb, OpenLine};

/// First pause between two polls of a waiting ticket, where no notices arrive. It doubles with each
/// poll, up to [`POLL_MAX`], with jitter.
const POLL_FIRST: Duration = Duration::from_millis(20);
/// Longest pause between two polls of a ticket.
pub const POLL_MAX: Duration = Duration::from_secs(1);
/// Pause between two snapshots of an onlooker.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// Longest time between two sweeps of a client that uses the store; jitter shortens it by up to a
/// half. Also the age of the orphans that a sweep deletes.
pub const SWEEP_PAUSE: Duration = Duration::from_secs(600);

/// An engine over a store of records.
pub struct RecordEngine<S: RecordStore> {
    store: Arc<S>,
    runtime: Arc<dyn Runtime>,
    listener: Arc<NoticeListener<S>>,
    batcher: LineBatcher<S>,
    sampler: Sampler,
    /// When the next sweep is due.
    next_sweep: Mutex<Time>,
    /// The backoff of tickets that were polled lately. A read does not know that a transaction
    /// holds the line, and finds the same news at each watch.
    polled: Mutex<ExpiringMap<Backoff>>,
}

impl<S: RecordStore> RecordEngine<S> {
    /// An engine whose tasks run on this runtime. `calls_max`: the maximum number of operations of
    /// the store at a time, over all keys, such as the number of its connections. Half of them are
    /// kept for steps on lines.
    pub fn new(store: S, runtime: Arc<dyn Runtime>, calls_max: usize) -> Self {
        let store = Arc::new(store);
        let listener = Arc::new(NoticeListener::new(store.clone(), runtime.clone()));
        let batcher = LineBatcher::new(store.clone(), runtime.clone(), listener.clone(), calls_max);
        let first_sweep = runtime.now().plus(jitter(SWEEP_PAUSE, runtime.random()));
        Self {
            store,
            runtime,
            listener,
            batcher,
            sampler: Sampler::new(LOOK_PAUSE),
            next_sweep: Mutex::new(first_sweep),
            polled: Mutex::default(),
        }
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    async fn ask(&self, ticket: &Ticket, verb: LineVerb) -> Result<LineAnswer> {
        self.sweep_if_due();
        self.batcher.send(LineRequest { ticket: ticket.clone(), verb }).await
    }

    async fn place(&self, ticket: &Ticket, verb: LineVerb) -> Result<Option<Place>> {
        match self.ask(ticket, verb).await? {
            LineAnswer::At(place) => Ok(place),
            LineAnswer::Refused(error) => Err(error),
            LineAnswer::Left(_) => Ok(None),
        }
    }

    /// The place of a ticket after a step.
    async fn step(&self, ticket: &Ticket, verb: LineVerb) -> Result<Option<Place>> {
        let place = self.place(ticket, verb).await?;
        if let Some(place) = &place {
            self.listener.subscriptions.learn(ticket.id, place);
        }
        Ok(place)
    }

    /// Reads the ticket's place, and returns whether it may have changed. A read decides nothing:
    /// only a step serves a ticket, so that the record names the holder.
    async fn has_news(&self, ticket: &Ticket, seen: TicketState) -> Result<bool> {
        let subscriptions = &self.listener.subscriptions;
        let place = self.place(ticket, LineVerb::Look).await?;
        // The notice of it may be lost, and later watchers are to learn it, too.
        match &place {
            None => subscriptions.deliver(ticket.id, Notification::Out),
            Some(place) if place.leaving => subscriptions.deliver(ticket.id, Notification::Told),
            Some(_) => {}
        }
        Ok(place.is_none_or(|place| place.leaving || place.state != seen))
    }

    /// Waits for a notice to the ticket. If one may have been lost, it reads the ticket's place.
    async fn hear(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        let subscriptions = &self.listener.subscriptions;
        let mut backoff = Backoff::new(POLL_FIRST, POLL_MAX);
        while subscriptions.expects(ticket.id) {
            let wake = subscriptions.watch(ticket.id, seen).await;
            if matches!(wake, Wake::Served(_)) {
                return Ok(wake);
            }
            if self.has_news(ticket, seen).await? {
                return Ok(Wake::Look);
            }
            self.runtime.sleep(backoff.next(self.runtime.random())).await;
        }
        // Another client put it into the line, and gets its notices.
        self.poll(ticket, seen, false).await
    }

    /// Polls: reads the ticket's place after each pause. With `only_deaf`, only while no notices
    /// arrive.
    async fn poll(&self, ticket: &Ticket, seen: TicketState, only_deaf: bool) -> Result<Wake> {
        let last = self.polled.lock().get(ticket.id, self.runtime.now()).cloned();
        let mut backoff = last.unwrap_or_else(|| Backoff::new(POLL_FIRST, POLL_MAX));
        loop {
            if only_deaf {
                self.listener.is_deaf().await;
            }
            self.runtime.sleep(backoff.next(self.runtime.random())).await;
            let now = self.runtime.now();
            self.polled.lock().note(ticket.id, backoff.clone(), now, now.plus(POLL_MAX * 2));
            if self.has_news(ticket, seen).await? {
                return Ok(Wake::Look);
            }
        }
    }

    /// Starts a sweep in the background, at most one in [`SWEEP_PAUSE`] with jitter.
    fn sweep_if_due(&self) {
        let now = self.runtime.now();
        {
            let mut next = self.next_sweep.lock();
            if !now.has_reached(*next) {
                return;
            }
            *next = now.plus(jitter(SWEEP_PAUSE, self.runtime.random()));
        }
        let batcher = self.batcher.clone();
        self.runtime.spawn(Box::pin(async move {
            let sweep = |store: Arc<S>| async move { store.sweep(SWEEP_PAUSE).await };
            if let Err(error) = batcher.call(sweep).await {
                tracing::debug!(%error, "orphans are not deleted");
            }
        }));
    }
}

impl<S: RecordStore> Engine for RecordEngine<S> {
    fn guarantees(&self) -> Guarantees {
        self.store.guarantees()
    }

    async fn join(&self, ticket: &Ticket, mode: WaitMode) -> Result<Option<Place>> {
        // Notices may come before the answer.
        let asking = self.listener.subscriptions.expect_answer(ticket.id, ticket.ttl);
        let place = self.step(ticket, LineVerb::Join(mode)).await?;
        if place.is_some() {
            asking.let_in();
        }
        Ok(place)
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let place = self.step(ticket, LineVerb::Renew).await?;
        match place {
            Some(_) => self.listener.subscriptions.expect(ticket.id, ticket.ttl),
            None => self.listener.subscriptions.forget(ticket.id),
        }
        Ok(place)
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        match self.ask(ticket, LineVerb::Leave(how)).await? {
            LineAnswer::Left(LeaveOutcome::Requested) => Ok(LeaveOutcome::Requested),
            LineAnswer::Left(outcome) => {
                self.listener.subscriptions.forget(ticket.id);
                Ok(outcome)
            }
            LineAnswer::Refused(error) => Err(error),
            LineAnswer::At(_) => Ok(LeaveOutcome::Unsure),
        }
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        let _watcher = self.listener.watch();
        let (heard, polled) = (self.hear(ticket, seen), self.poll(ticket, seen, true));
        select(pin!(heard), pin!(polled)).await.factor_first().0
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.sampler.events(self, &*self.runtime, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let name = key.clone();
        let read = |store: Arc<S>| async move { store.read(&name).await };
        let found = self.batcher.call(read).await?;
        let mut line = OpenLine::read(key, &found)?;
        line.expire();
        Ok(line.list())
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let prefix = prefix.to_owned();
        let list = |store: Arc<S>| async move { store.keys(&prefix).await };
        let mut keys = self.batcher.call(list).await?;
        keys.sort_unstable();
        Ok(keys)
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        let key = key.clone();
        self.batcher.call(move |store| async move { store.add(&key, by, window).await }).await
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        let (key, seen, value) = (key.clone(), seen.to_owned(), value.to_owned());
        self.batcher.call(|store| async move { store.swap(&key, &seen, &value).await }).await
    }

    async fn close(&self) {
        self.batcher.close().await;
        self.store.close().await;
    }
}
