//! A store that answers, refuses, fails or hangs by method, and counts its requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_conformance::fault::Verb;
use tenure_conformance::sim::World;
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// It refuses.
    Refuses,
    /// It fails at once without acting, and the client cannot know whether it acted.
    Fails,
    /// It never answers, and never acts.
    Hangs,
}

/// A remote memory store. Clones are the same store.
#[derive(Clone)]
pub(crate) struct Moody(Arc<Shared>);

struct Shared {
    world: World,
    memory: Mutex<Memory>,
    moods: Mutex<BTreeMap<Verb, Mood>>,
    asked: AtomicUsize,
    /// The longest ttl that this store reports.
    life_max: Mutex<Duration>,
    breaks: std::sync::atomic::AtomicBool,
}

impl Moody {
    pub(crate) fn new(world: &World) -> Self {
        Self(Arc::new(Shared {
            world: world.clone(),
            memory: Mutex::new(Memory::with_clock((*world.store()).clone())),
            moods: Mutex::default(),
            asked: AtomicUsize::new(0),
            life_max: Mutex::new(Duration::MAX),
            breaks: std::sync::atomic::AtomicBool::new(false),
        }))
    }

    pub(crate) fn is(&self, mood: Mood) {
        for verb in ALL {
            self.is_when(verb, mood);
        }
    }

    pub(crate) fn is_when(&self, verb: Verb, mood: Mood) {
        self.0.moods.lock().unwrap().insert(verb, mood);
    }

    /// It restarts without its data.
    pub(crate) fn loses_everything(&self) {
        *self.0.memory.lock().unwrap() = Memory::with_clock((*self.0.world.store()).clone());
    }

    pub(crate) fn has_a_clock_ahead_by(&self, ahead: Duration) {
        let host = self.0.world.process();
        host.step_wall_clock(i64::try_from(ahead.as_micros()).unwrap());
        *self.0.memory.lock().unwrap() = Memory::with_clock((*host).clone());
    }

    pub(crate) fn tells_lives_up_to(&self, life_max: Duration) {
        *self.0.life_max.lock().unwrap() = life_max;
    }

    /// Each ticket is asked to leave right after its join.
    pub(crate) fn is_broken_as_it_joins(&self) {
        self.0.breaks.store(true, Ordering::Relaxed);
    }

    /// Removes all tickets.
    pub(crate) async fn loses_tickets(&self) {
        self.0.breaks.store(false, Ordering::Relaxed);
        let memory = self.memory();
        for key in memory.keys("").await.unwrap() {
            for (ticket, _) in memory.line(&key).await.unwrap() {
                memory.leave(&ticket, LeaveMode::Now).await.unwrap();
            }
        }
    }

    /// The number of requests.
    pub(crate) fn asked(&self) -> usize {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// Its data.
    pub(crate) fn memory(&self) -> Memory {
        self.0.memory.lock().unwrap().clone()
    }

    async fn heed(&self, verb: Verb) -> Result<Memory> {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        let mood = self.0.moods.lock().unwrap().get(&verb).copied().unwrap_or(Mood::Well);
        match mood {
            Mood::Well => Ok(self.memory()),
            Mood::Refuses => Err(Error::rejected("its memory is full")),
            Mood::Fails => Err(Error::unavailable("it cannot be reached")),
            Mood::Hangs => std::future::pending().await,
        }
    }

    fn shortened(&self, place: Option<Place>) -> Option<Place> {
        let life_max = *self.0.life_max.lock().unwrap();
        place.map(|place| Place { life: place.life.map(|life| life.min(life_max)), ..place })
    }
}

const ALL: [Verb; 9] = [
    Verb::Join,
    Verb::Renew,
    Verb::Leave,
    Verb::Watch,
    Verb::Events,
    Verb::Line,
    Verb::Keys,
    Verb::Add,
    Verb::Swap,
];

impl Engine for Moody {
    fn guarantees(&self) -> Guarantees {
        let mut profile = self.memory().guarantees();
        profile.quick = false;
        profile
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        let joined = self.heed(Verb::Join).await?.join(ticket, patience).await?;
        if self.0.breaks.load(Ordering::Relaxed) {
            self.memory().leave(ticket, LeaveMode::Graceful).await?;
        }
        Ok(self.shortened(joined))
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        Ok(self.shortened(self.heed(Verb::Renew).await?.renew(ticket).await?))
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        self.heed(Verb::Leave).await?.leave(ticket, how).await
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        self.heed(Verb::Watch).await?.watch(ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.heed(Verb::Events).await?.events(scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.heed(Verb::Line).await?.line(key).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.heed(Verb::Keys).await?.keys(prefix).await
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        self.heed(Verb::Add).await?.add(key, by, window).await
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        self.heed(Verb::Swap).await?.swap(key, seen, value).await
    }

    async fn close(&self) {}
}
