//! An engine that is spied on: every question is shown to an onlooker before it is sent.

use std::future::Future;
use std::sync::Arc;

use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::{
    CounterValue, Engine, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Ticket,
    TicketState, WaitMode, Wake, Window,
};

use super::asked::{Asked, Verb};
use super::carries::carries_every_verb;

/// Shows every question to an onlooker.
pub struct Spied<E> {
    engine: Arc<E>,
    show: Box<dyn Fn(Asked<'_>) + Send + Sync>,
}

impl<E: Engine> Spied<E> {
    /// The engine, with an onlooker before it.
    pub fn new(engine: E, show: impl Fn(Asked<'_>) + Send + Sync + 'static) -> Self {
        Self { engine: Arc::new(engine), show: Box::new(show) }
    }

    fn told(&self) -> Guarantees {
        self.engine.guarantees()
    }

    async fn carry<T, F>(&self, asked: Asked<'_>, verb: impl Fn(Arc<E>) -> F + Send) -> Result<T>
    where
        T: Send,
        F: Future<Output = Result<T>> + Send,
    {
        (self.show)(asked);
        verb(self.engine.clone()).await
    }
}

carries_every_verb!(Spied);
