//! An engine that shows each request to a closure before it sends it.

use std::future::Future;
use std::sync::Arc;

use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::{
    CounterValue, Engine, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Ticket,
    TicketState, WaitMode, Wake, Window,
};

use super::asked::{Asked, Verb};
use super::carries::carries_every_verb;

/// Shows each request to a closure.
pub struct Spied<E> {
    engine: Arc<E>,
    show: Box<dyn Fn(Asked<'_>) + Send + Sync>,
}

impl<E: Engine> Spied<E> {
    /// Wraps an engine.
    pub fn new(engine: E, show: impl Fn(Asked<'_>) + Send + Sync + 'static) -> Self {
        Self { engine: Arc::new(engine), show: Box::new(show) }
    }

    fn promises(&self) -> Guarantees {
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
