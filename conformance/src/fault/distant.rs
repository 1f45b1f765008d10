//! An engine behind a simulated network: a request arrives late, twice, out of order, or never.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::{
    CounterValue, Engine, Error, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Runtime,
    Ticket, TicketId, TicketState, WaitMode, Wake, Window,
};
use tokio::sync::oneshot;

use super::asked::{Asked, Verb, happens};
use super::carries::carries_every_verb;
use super::weather::{Network, Weather};

/// Sends every request over a [`Network`].
///
/// A sent request continues without its sender: it runs on the host of the store, also if the
/// caller's future is dropped or its process is paused, and possibly long after the caller got
/// `Unavailable`.
pub struct Distant<E> {
    engine: Arc<E>,
    client: Arc<dyn Runtime>,
    store: Arc<dyn Runtime>,
    network: Network,
    patience: Duration,
}

impl<E: Engine> Distant<E> {
    /// Wraps the engine of the host `store`, for a client that waits `patience` for an answer.
    pub fn new(
        engine: E,
        store: Arc<dyn Runtime>,
        client: Arc<dyn Runtime>,
        network: Network,
        patience: Duration,
    ) -> Self {
        Self { engine: Arc::new(engine), client, store, network, patience }
    }

    fn promises(&self) -> Guarantees {
        let mut profile = self.engine.guarantees();
        profile.quick = false;
        profile
    }

    async fn carry<T, F>(
        &self,
        asked: Asked<'_>,
        verb: impl Fn(Arc<E>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let name = asked.verb;
        if self.network.is_cut() && happens(self.store.random(), 500) {
            return Err(Error::unavailable(format!("cannot reach the store for {name:?}")));
        }
        let (reply, replied) = oneshot::channel();
        let sent = Sent {
            engine: self.engine.clone(),
            store: self.store.clone(),
            network: self.network.clone(),
            verb: name,
            id: asked.id(),
        };
        self.store.spawn(Box::pin(sent.carry(verb, reply)));
        let silence = self.client.sleep(self.patience);
        match select(replied, silence).await {
            Either::Left((Ok(outcome), _)) => return outcome,
            // A client cannot see that a message was lost.
            Either::Left((Err(_), _)) if name.only_waits() => std::future::pending().await,
            Either::Left((Err(_), silence)) => silence.await,
            Either::Right(((), replied)) if name.only_waits() => match replied.await {
                Ok(outcome) => return outcome,
                Err(_) => std::future::pending().await,
            },
            Either::Right(_) => {}
        }
        Err(Error::unavailable(format!("no answer to {name:?} within {:?}", self.patience)))
    }
}

carries_every_verb!(Distant);

/// A message, with all that it needs to continue without its sender.
struct Sent<E> {
    engine: Arc<E>,
    store: Arc<dyn Runtime>,
    network: Network,
    verb: Verb,
    id: Option<TicketId>,
}

impl<E: Engine> Sent<E> {
    async fn carry<T, F>(
        self,
        verb: impl Fn(Arc<E>) -> F + Send + 'static,
        reply: oneshot::Sender<Result<T>>,
    ) where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let weather = self.weather();
        if !self.passes(weather.lost_requests).await {
            return;
        }
        if !self.verb.only_waits() && happens(self.store.random(), weather.doubled) {
            self.send_again(verb(self.engine.clone()));
        }
        let Some((outcome, reply)) = self.carry_out(verb(self.engine.clone()), reply).await else {
            return;
        };
        let weather = self.weather();
        if self.passes(weather.lost_replies).await {
            let _ = reply.send(outcome); // The caller may be gone.
        }
    }

    fn weather(&self) -> Weather {
        self.network.weather_for(self.verb, self.id)
    }

    /// A request that only waits is cancelled when its caller is dropped.
    async fn carry_out<T>(
        &self,
        verb: impl Future<Output = Result<T>>,
        mut reply: oneshot::Sender<Result<T>>,
    ) -> Option<(Result<T>, oneshot::Sender<Result<T>>)> {
        if !self.verb.only_waits() {
            return Some((verb.await, reply));
        }
        let outcome = match select(pin!(verb), pin!(reply.closed())).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => return None,
        };
        Some((outcome, reply))
    }

    fn send_again<T>(&self, verb: impl Future<Output = Result<T>> + Send + 'static) {
        let weather = self.weather();
        let late = part_of(weather.delay.max(weather.late_by), self.store.random());
        let (store, network) = (self.store.clone(), self.network.clone());
        self.store.spawn(Box::pin(async move {
            store.sleep(late).await;
            if !network.is_cut() {
                let _ = verb.await; // No caller waits for the duplicate.
            }
        }));
    }

    /// Whether a message in one direction arrives.
    async fn passes(&self, lost_per_mille: u32) -> bool {
        let weather = self.weather();
        let lost = happens(self.store.random(), lost_per_mille);
        let late = happens(self.store.random(), weather.late);
        let longest = if late { weather.late_by } else { weather.delay };
        let took = part_of(longest, self.store.random());
        if lost || self.network.is_cut() {
            return false;
        }
        if !took.is_zero() {
            self.store.sleep(took).await;
        }
        !self.network.is_cut()
    }
}

/// A random part of the longest time.
fn part_of(longest: Duration, random: u64) -> Duration {
    let part = u32::try_from(random % 1024).unwrap_or(0) + 1;
    longest / 1024 * part
}
