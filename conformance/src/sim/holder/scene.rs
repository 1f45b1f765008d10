//! A scene: one store, a few clients with a network each, and an onlooker who sees every question.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use tenure_core::layers::AnyEngine;
use tenure_core::{Engine as _, Key, Memory, Place, Runtime as _, Ticket, TicketId, TicketState};

use super::{Claim, Client, Holder, Locking, View};
use crate::fault::{Distant, Network, Spied, Verb, Weather};
use crate::sim::{SimHost, World};

/// How long tickets live in every scene.
pub(super) const TTL: Duration = Duration::from_secs(3);
/// The lock that most scenes are about.
pub(super) const KEY: &str = "job";

/// More questions than this at one moment come from a loop that never ends.
const QUESTIONS_PER_MOMENT_MAX: usize = 1_000;

/// What a case has to show: nothing, or why the sentence is not true.
pub(super) type Verdict = Result<(), String>;

/// Where a holder is put to the test.
pub struct Scene {
    pub(super) world: World,
    holder: Arc<dyn Holder>,
    store: Memory,
}

/// One client in a scene.
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

/// What a lock request came to, once it has come to something.
type Outcome = Arc<Mutex<Option<tenure_core::Result<Option<Box<dyn Claim>>>>>>;

/// A lock that its client asks for on its own host, so that it can be paused meanwhile.
pub(super) struct Asking(Outcome);

impl Scene {
    /// A scene for this holder.
    pub fn new(world: World, holder: Arc<dyn Holder>) -> Self {
        let store = Memory::with_clock((*world.store()).clone());
        Self { world, holder, store }
    }

    /// Another client, in calm weather. Nobody answers for a store that is silent: whoever does not
    /// want to hang has to look after that itself.
    pub(super) fn actor(&self) -> Actor {
        self.actor_with(Duration::from_secs(3600))
    }

    /// Another client, whose wire tells after so long that there was no answer.
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
                "it asks for ever: {question:?}"
            );
        });
        let client = self.holder.connect(AnyEngine::new(engine), host.clone());
        Actor { host, network, client, asked }
    }

    /// Lets time pass.
    pub(super) async fn pass(&self, time: Duration) {
        self.world.store().sleep(time).await;
    }

    /// Lets time pass until something is so, in steps, but not for ever.
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

    /// The tickets of a key, as the store knows them at this moment.
    pub(super) fn line(&self, key: &str) -> Vec<(Ticket, Place)> {
        let key = Key::new(key).expect("the scene names its keys");
        self.store.line(&key).now_or_never().and_then(Result::ok).unwrap_or_default()
    }

    /// Whether the store serves this ticket at this moment.
    pub(super) fn serves(&self, key: &str, id: TicketId) -> bool {
        let holds = |place: &Place| place.state == TicketState::Holding;
        self.line(key).iter().any(|(ticket, place)| ticket.id == id && holds(place))
    }

    /// Watches for so long that nobody believes what the store does not know.
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
                    return Err(format!("it believes to hold {key}, and the store has let it go"));
                }
            }
            self.pass(step).await;
        }
        Ok(())
    }
}

impl Actor {
    /// Asks for a lock; the question goes out when the future is polled.
    pub(super) fn lock(&self, key: &str, wait: Option<Duration>) -> Locking {
        self.client.lock(key, TTL, wait)
    }

    /// Gets a lock that is free.
    pub(super) async fn get(&self, key: &str) -> Result<Box<dyn Claim>, String> {
        match self.within(TTL * 4, self.lock(key, None)).await {
            Some(Ok(Some(claim))) => Ok(claim),
            Some(Ok(None)) => Err(format!("{key} was not granted")),
            Some(Err(error)) => Err(format!("{key} was not granted: {error}")),
            None => Err(format!("{key} was not granted for {:?}", TTL * 4)),
        }
    }

    /// Asks for a lock in a task of its own.
    pub(super) fn ask(&self, key: &str) -> Asking {
        let (locking, outcome) = (self.lock(key, None), Outcome::default());
        let told = outcome.clone();
        self.host.spawn(Box::pin(async move {
            let got = locking.await;
            *lock(&told) = Some(got);
        }));
        Asking(outcome)
    }

    /// How often it has asked this, of any ticket or of one.
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

impl Asking {
    /// What it came to, if it has.
    pub(super) fn outcome(&self) -> Option<tenure_core::Result<Option<Box<dyn Claim>>>> {
        lock(&self.0).take()
    }
}

/// The sentence is not true unless this is.
pub(super) fn ensure(is_true: bool, otherwise: &str) -> Verdict {
    if is_true { Ok(()) } else { Err(otherwise.to_owned()) }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
