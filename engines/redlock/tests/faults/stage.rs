//! Stores, their lines of waiters, and clients, for the tests of quorums.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_conformance::sim::{SimHost, World};
use tenure_core::layers::AnyEngine;
use tenure_core::*;
use tenure_redlock::Quorum;

use super::moody::Moody;

pub(crate) const PATIENCE: Duration = Duration::from_millis(50);
/// Longer than any test, so no ticket expires.
pub(crate) const TTL: Duration = Duration::from_secs(1000);

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) stores: Vec<Moody>,
    pub(crate) turns: Vec<Moody>,
}

/// Runs a test over this number of stores.
pub(crate) fn play<F: Future<Output = ()>>(stores: usize, story: impl Fn(Stage) -> F) {
    World::run(1, |world| story(Stage::new(&world, stores)));
}

impl Stage {
    fn new(world: &World, count: usize) -> Self {
        let stores = || (0..count).map(|_| Moody::new(world)).collect();
        Self { world: world.clone(), stores: stores(), turns: stores() }
    }

    /// A client of all stores, on this runtime.
    pub(crate) fn quorum(&self, host: Arc<dyn Runtime>) -> Quorum {
        let engines =
            |stores: &[Moody]| stores.iter().cloned().map(AnyEngine::new).collect::<Vec<_>>();
        let quorum = Quorum::new(engines(&self.stores), host, PATIENCE).unwrap();
        let names = (0..self.stores.len()).map(|at| format!("s{at}"));
        quorum.named("redlock", names).with_wait_queues(engines(&self.turns))
    }

    /// A client in its own process.
    pub(crate) fn client(&self) -> Arc<Quorum> {
        Arc::new(self.quorum(self.world.process()))
    }

    /// The locks of such a client.
    pub(crate) fn locks(&self) -> Locks {
        let host = self.world.process();
        Locks::on(self.quorum(host.clone()), host)
    }

    /// The duration in simulated time.
    pub(crate) async fn time_of(&self, work: impl Future<Output = ()>) -> Duration {
        let before = self.world.passed();
        work.await;
        self.world.passed().saturating_sub(before)
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.world.store().sleep(time).await;
    }

    /// The number of tickets of the key in each store.
    pub(crate) async fn tickets(&self) -> Vec<usize> {
        count_in(&self.stores).await
    }

    /// The number of waiters in each line.
    pub(crate) async fn places(&self) -> Vec<usize> {
        count_in(&self.turns).await
    }
}

async fn count_in(stores: &[Moody]) -> Vec<usize> {
    let mut counts = Vec::new();
    for store in stores {
        counts.push(store.memory().line(&key()).await.unwrap().len());
    }
    counts
}

pub(crate) fn key() -> Key {
    Key::new("k").unwrap()
}

pub(crate) fn ticket() -> Ticket {
    Ticket {
        id: TicketId::fresh(),
        key: key(),
        share: Share::WHOLE,
        ttl: TTL,
        owner: Owner::shortened(""),
        note: Note::default(),
        floor: 0,
    }
}

/// Joins, and is served at once.
pub(crate) async fn hold(client: &Quorum, ticket: &Ticket) -> Place {
    let place = client.join(ticket, WaitMode::Wait).await.unwrap().unwrap();
    assert_eq!(place.state, TicketState::Holding);
    place
}

/// Joins, and waits.
pub(crate) async fn wait(client: &Quorum, ticket: &Ticket) -> Place {
    let place = client.join(ticket, WaitMode::Wait).await.unwrap().unwrap();
    assert_eq!(place.state, TicketState::Waiting);
    place
}

/// Waits until the ticket is served. `None`: it was removed.
pub(crate) async fn served(client: &Quorum, ticket: &Ticket) -> Option<Place> {
    loop {
        let place = client.renew(ticket).await.unwrap()?;
        if place.state == TicketState::Holding {
            return Some(place);
        }
        client.watch(ticket, TicketState::Waiting).await.unwrap();
    }
}

/// A runtime that counts its tasks.
pub(crate) struct Counting {
    pub(crate) host: Arc<SimHost>,
    pub(crate) tasks: Arc<AtomicUsize>,
}

impl Counting {
    pub(crate) fn on(host: Arc<SimHost>) -> Self {
        Self { host, tasks: Arc::default() }
    }
}

impl Clock for Counting {
    fn now(&self) -> Time {
        self.host.now()
    }

    fn wall_us(&self) -> u64 {
        self.host.wall_us()
    }
}

impl Runtime for Counting {
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.host.sleep(duration)
    }

    fn random(&self) -> u64 {
        self.host.random()
    }

    fn spawn(&self, task: BoxFuture<()>) {
        let tasks = self.tasks.clone();
        tasks.fetch_add(1, Ordering::Relaxed);
        self.host.spawn(Box::pin(async move {
            task.await;
            tasks.fetch_sub(1, Ordering::Relaxed);
        }));
    }
}
