//! A boxed engine of any type.

use std::fmt;
use std::sync::Arc;

use crate::event::{Cursor, EventBatch, Scope};
use crate::{
    CounterValue, Engine, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Ticket,
    TicketState, WaitMode, Wake, Window,
};

/// An engine of any type. Clones share it.
///
/// ```
/// use tenure::engine::{Engine, Memory, AnyEngine};
///
/// let stores: Vec<AnyEngine> = vec![AnyEngine::new(Memory::new()), AnyEngine::new(Memory::new())];
/// assert!(stores.iter().all(|store| store.guarantees().name == "memory"));
/// ```
#[derive(Clone)]
pub struct AnyEngine(Arc<dyn Verbs>);

impl AnyEngine {
    /// Boxes the engine.
    pub fn new(engine: impl Engine) -> Self {
        Self(Arc::new(engine))
    }
}

type Boxed<'a, T> = std::pin::Pin<Box<dyn std::future::Future<Output = T> + Send + 'a>>;
type Answer<'a, T> = Boxed<'a, Result<T>>;

/// The operations of [`Engine`] with boxed futures, as a trait object needs them.
trait Verbs: Send + Sync + 'static {
    fn profile(&self) -> Guarantees;
    fn join<'a>(&'a self, ticket: &'a Ticket, patience: WaitMode) -> Answer<'a, Option<Place>>;
    fn renew<'a>(&'a self, ticket: &'a Ticket) -> Answer<'a, Option<Place>>;
    fn leave<'a>(&'a self, ticket: &'a Ticket, how: LeaveMode) -> Answer<'a, LeaveOutcome>;
    fn watch<'a>(&'a self, ticket: &'a Ticket, seen: TicketState) -> Answer<'a, Wake>;
    fn events<'a>(&'a self, scope: &'a Scope, after: Option<Cursor>) -> Answer<'a, EventBatch>;
    fn line<'a>(&'a self, key: &'a Key) -> Answer<'a, Vec<(Ticket, Place)>>;
    fn keys<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<Key>>;
    fn add<'a>(&'a self, key: &'a Key, by: u64, window: Option<Window>)
    -> Answer<'a, CounterValue>;
    fn swap<'a>(&'a self, key: &'a Key, seen: &'a str, value: &'a str) -> Answer<'a, String>;
    fn close(&self) -> Boxed<'_, ()>;
}

impl<E: Engine> Verbs for E {
    fn profile(&self) -> Guarantees {
        Engine::guarantees(self)
    }

    fn join<'a>(&'a self, ticket: &'a Ticket, patience: WaitMode) -> Answer<'a, Option<Place>> {
        Box::pin(Engine::join(self, ticket, patience))
    }

    fn renew<'a>(&'a self, ticket: &'a Ticket) -> Answer<'a, Option<Place>> {
        Box::pin(Engine::renew(self, ticket))
    }

    fn leave<'a>(&'a self, ticket: &'a Ticket, how: LeaveMode) -> Answer<'a, LeaveOutcome> {
        Box::pin(Engine::leave(self, ticket, how))
    }

    fn watch<'a>(&'a self, ticket: &'a Ticket, seen: TicketState) -> Answer<'a, Wake> {
        Box::pin(Engine::watch(self, ticket, seen))
    }

    fn events<'a>(&'a self, scope: &'a Scope, after: Option<Cursor>) -> Answer<'a, EventBatch> {
        Box::pin(Engine::events(self, scope, after))
    }

    fn line<'a>(&'a self, key: &'a Key) -> Answer<'a, Vec<(Ticket, Place)>> {
        Box::pin(Engine::line(self, key))
    }

    fn keys<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<Key>> {
        Box::pin(Engine::keys(self, prefix))
    }

    fn add<'a>(
        &'a self,
        key: &'a Key,
        by: u64,
        window: Option<Window>,
    ) -> Answer<'a, CounterValue> {
        Box::pin(Engine::add(self, key, by, window))
    }

    fn swap<'a>(&'a self, key: &'a Key, seen: &'a str, value: &'a str) -> Answer<'a, String> {
        Box::pin(Engine::swap(self, key, seen, value))
    }

    fn close(&self) -> Boxed<'_, ()> {
        Box::pin(Engine::close(self))
    }
}

impl Engine for AnyEngine {
    fn guarantees(&self) -> Guarantees {
        self.0.profile()
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        self.0.join(ticket, patience).await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.0.renew(ticket).await
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        self.0.leave(ticket, how).await
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        self.0.watch(ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.0.events(scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.0.line(key).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.0.keys(prefix).await
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        self.0.add(key, by, window).await
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        self.0.swap(key, seen, value).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

impl fmt::Debug for AnyEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyEngine").field("engine", &self.guarantees().name).finish_non_exhaustive()
    }
}
