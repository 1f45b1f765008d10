//! A scene: one store, a few clients with a network each, and an observer of every request.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use tenure_core::layers::AnyEngine;
use tenure_core::sync::Mutex;
use tenure_core::{Engine as _, Key, Memory, Place, Runtime as _, Ticket, TicketId, TicketState};

use super::{Claim, Client, Holder, Locking, View};
use crate::fault::{Distant, Network, Spied, Verb, Weather};
use crate::sim::{SimHost, World};

/// The ttl in every scene.
pub(super) const TTL: Duration = Duration::from_secs(3);
/// The key of most scenes.
pub(super) const KEY: &str = "job";

/// Maximum requests at one moment; more are an endless loop.
const QUESTIONS_PER_MOMENT_MAX: usize = 1_000;

/// The result of a case. The error is the reason why the statement does not hold.
pub(super) type Verdict = Result<(), String>;

/// The scene of a case.
pub struct Scene {
    pub(super) world: World,
    holder: Arc<dyn Holder>,
    store: Memory,
}

/// One client of a scene.
pub(super) struct Actor {
    pub(super) host: Arc<SimHost>,
    pub(super) network: Network,
    client: Arc<dyn Client>,
    asked: Arc<Mutex<Vec<Question>>>,
}

struct Question {
    verb: Verb,
    id: Option<TicketId>,
    at: Duration,
}

/// The outcome of a lock request, once it has one.
type Outcome = Arc<Mutex<Option<tenure_core::Result<Option<Box<dyn Claim>>>>>>;

/// A lock request that runs on the client's own process, so that it can be paused.
pub(super) struct PendingLock(Outcome);

impl Scene {
    /// A scene for this holder.
    pub fn new(world: World, holder: Arc<dyn Holder>) -> Self {
        let store = Memory::with_clock((*world.store()).clone());
        Self { world, holder, store }
    }

    /// Another client, on a network without faults. No reply reports a silent store: a holder needs
    /// its own time limit.
    pub(super) fn actor(&self) -> Actor {
        self.actor_with(Duration::from_secs(3600))
    }

    /// Another client, which gets `Unavailable` after `patience` without a reply.
    pub(super) fn actor_with(&self, patience: Duration) -> Actor {
        let host = self.world.process();
        let delay = Duration::from_millis(2);
        let network = Network::new(Weather { delay, ..Weather::STILL });
        let (here, store) = (host.clone(), self.world.store());
        let engine = Distant::new(self.store.clone(), store, here, network.clone(), patience);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (seen, world) = (asked.clone(), self.world.clone());
        let engine = Spied::new(engine, move |question| {
            let mut seen = lock(&seen);
            let at = world.passed();
            seen.push(Question { verb: question.verb, id: question.id(), at });
            let earlier = seen.iter().rev().nth(QUESTIONS_PER_MOMENT_MAX);
            assert!(
                earlier.is_none_or(|earlier| earlier.at < at),
                "a request is repeated without end: {question:?}"
            );
        });
        let client = self.holder.connect(AnyEngine::new(engine), host.clone());
        Actor { host, network, client, asked }
    }

    /// Waits for this time.
    pub(super) async fn pass(&self, time: Duration) {
        self.world.store().sleep(time).await;
    }

    /// Waits in steps until a condition is true, with a limit.
    pub(super) async fn until(&self, step: Duration, is_so: impl Fn() -> bool) -> Verdict {
        let end = self.world.passed() + TTL * 4;
        while !is_so() {
            if self.world.passed() > end {
                return Err("it goes on for ever".to_owned());
            }
            self.pass(step).await;
        }
        Ok(())
    }

    /// The tickets of a key in the store, at this moment.
    pub(super) fn line(&self, key: &str) -> Vec<(Ticket, Place)> {
        let key = Key::new(key).expect("the key is valid");
        self.store.line(&key).now_or_never().and_then(Result::ok).unwrap_or_default()
    }

    /// Whether the store serves this ticket at this moment.
    pub(super) fn serves(&self, key: &str, id: TicketId) -> bool {
        let holds = |place: &Place| place.state == TicketState::Holding;
        self.line(key).iter().any(|(ticket, place)| ticket.id == id && holds(place))
    }

    /// Checks for this time that no client believes to hold a lock that the store does not serve.
    pub(super) async fn watch(
        &self,
        time: Duration,
        claims: &[(&str, TicketId, &dyn View)],
    ) -> Verdict {
        let step = Duration::from_millis(5);
        let end = self.world.passed() + time;
        while self.world.passed() < end {
            for (key, id, view) in claims {
                if view.check().is_ok() && !self.serves(key, *id) {
                    return Err(format!(
                        "the client believes to hold {key}, but the store does not serve it"
                    ));
                }
            }
            self.pass(step).await;
        }
        Ok(())
    }
}

impl Actor {
    /// Requests a lock. The request is sent when the future is polled.
    pub(super) fn lock(&self, key: &str, wait: Option<Duration>) -> Locking {
        self.client.lock(key, TTL, wait)
    }

    /// Takes a free lock.
    pub(super) async fn get(&self, key: &str) -> Result<Box<dyn Claim>, String> {
        match self.within(TTL * 4, self.lock(key, None)).await {
            Some(Ok(Some(claim))) => Ok(claim),
            Some(Ok(None)) => Err(format!("{key} was not granted")),
            Some(Err(error)) => Err(format!("{key} was not granted: {error}")),
            None => Err(format!("{key} was not granted for {:?}", TTL * 4)),
        }
    }

    /// Requests a lock in a task of its own.
    pub(super) fn ask(&self, key: &str) -> PendingLock {
        let (locking, outcome) = (self.lock(key, None), Outcome::default());
        let result = outcome.clone();
        self.host.spawn(Box::pin(async move {
            let got = locking.await;
            *lock(&result) = Some(got);
        }));
        PendingLock(outcome)
    }

    /// The number of such requests, for any ticket or for one.
    pub(super) fn asked(&self, verb: Verb, id: Option<TicketId>) -> usize {
        let asked = lock(&self.asked);
        let same = |seen: &&Question| seen.verb == verb && (id.is_none() || seen.id == id);
        asked.iter().filter(same).count()
    }

    pub(super) async fn within<T>(
        &self,
        time: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let time = self.host.world().store().sleep(time);
        match select(std::pin::pin!(work), time).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }
}

impl PendingLock {
    /// The outcome, if it has one.
    pub(super) fn outcome(&self) -> Option<tenure_core::Result<Option<Box<dyn Claim>>>> {
        lock(&self.0).take()
    }
}

/// Fails the case unless this is true.
pub(super) fn ensure(is_true: bool, otherwise: &str) -> Verdict {
    if is_true { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock()
}
