//! An engine that loses requests and replies: a lost request is not applied, a lost reply is.

use std::future::Future;
use std::sync::Arc;

use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::{
    CounterValue, Engine, Error, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Runtime,
    Ticket, TicketState, WaitMode, Wake, Window,
};

use super::asked::{Asked, Verb, happens};
use super::carries::carries_every_verb;

/// Loses requests and replies, with a probability per thousand each. In both cases the caller gets
/// `Unavailable` at once.
pub struct Lossy<E> {
    engine: Arc<E>,
    host: Arc<dyn Runtime>,
    requests_per_mille: u32,
    replies_per_mille: u32,
}

impl<E: Engine> Lossy<E> {
    /// Wraps an engine. The host provides the random numbers.
    pub fn new(
        engine: E,
        host: Arc<dyn Runtime>,
        requests_per_mille: u32,
        replies_per_mille: u32,
    ) -> Self {
        Self { engine: Arc::new(engine), host, requests_per_mille, replies_per_mille }
    }

    fn promises(&self) -> Guarantees {
        self.engine.guarantees()
    }

    async fn carry<T, F>(&self, asked: Asked<'_>, verb: impl Fn(Arc<E>) -> F + Send) -> Result<T>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        if happens(self.host.random(), self.requests_per_mille) {
            return Err(Error::unavailable(format!("the request to {:?} was lost", asked.verb)));
        }
        let outcome = verb(self.engine.clone()).await;
        if happens(self.host.random(), self.replies_per_mille) {
            return Err(Error::unavailable(format!("the reply to {:?} was lost", asked.verb)));
        }
        outcome
    }
}

carries_every_verb!(Lossy);
