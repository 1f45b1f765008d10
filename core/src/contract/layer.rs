//! A layer: an engine that wraps another one, and changes only some operations.

use std::future::Future;

use tracing::Span;

use crate::event::{Cursor, EventBatch, Scope};
use crate::{
    CounterValue, Engine, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Ticket,
    TicketState, WaitMode, Wake, Window,
};

/// An engine that wraps another one. The inner engine does all that the layer does not override.
///
/// Each operation goes through [`intercept`](Layer::intercept), which handles all of them in the
/// same way. Override an operation to handle it differently.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use tenure::engine::{Layer, Operation};
/// use tenure::engine::Memory;
/// use tenure::{Locks, Result};
///
/// /// Counts the requests to a store.
/// struct Counted(Memory, AtomicU32);
///
/// impl Layer for Counted {
///     type Inner = Memory;
///
///     fn inner(&self) -> &Memory {
///         &self.0
///     }
///
///     async fn intercept<T: Send>(
///         &self,
///         _: Operation<'_>,
///         ask: impl Future<Output = Result<T>> + Send,
///     ) -> Result<T> {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         ask.await
///     }
/// }
///
/// # tenure::blocking::block_on(async {
/// let locks = Locks::new(Counted(Memory::new(), AtomicU32::new(0)));
/// locks.mutex("invoices/42").lock().await?.release().await?;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub trait Layer: Send + Sync + 'static {
    /// The type of the inner engine.
    type Inner: Engine;

    /// The inner engine.
    fn inner(&self) -> &Self::Inner;

    /// The guarantees, by default those of the inner engine.
    fn profile(&self) -> Guarantees {
        self.inner().guarantees()
    }

    /// Called for every operation but [`Engine::close`]. `ask` sends it to the inner engine.
    fn intercept<T: Send>(
        &self,
        _question: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send {
        ask
    }

    /// See [`Engine::join`].
    fn join(
        &self,
        ticket: &Ticket,
        patience: WaitMode,
    ) -> impl Future<Output = Result<Option<Place>>> + Send {
        self.intercept(Operation::Join(ticket), self.inner().join(ticket, patience))
    }

    /// See [`Engine::renew`].
    fn renew(&self, ticket: &Ticket) -> impl Future<Output = Result<Option<Place>>> + Send {
        self.intercept(Operation::Renew(ticket), self.inner().renew(ticket))
    }

    /// See [`Engine::leave`].
    fn leave(
        &self,
        ticket: &Ticket,
        how: LeaveMode,
    ) -> impl Future<Output = Result<LeaveOutcome>> + Send {
        self.intercept(Operation::Leave(ticket, how), self.inner().leave(ticket, how))
    }

    /// See [`Engine::watch`].
    fn watch(
        &self,
        ticket: &Ticket,
        seen: TicketState,
    ) -> impl Future<Output = Result<Wake>> + Send {
        self.intercept(Operation::Watch(ticket), self.inner().watch(ticket, seen))
    }

    /// See [`Engine::events`].
    fn events(
        &self,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> impl Future<Output = Result<EventBatch>> + Send {
        self.intercept(Operation::Events(scope), self.inner().events(scope, after))
    }

    /// See [`Engine::line`].
    fn line(&self, key: &Key) -> impl Future<Output = Result<Vec<(Ticket, Place)>>> + Send {
        self.intercept(Operation::Line(key), self.inner().line(key))
    }

    /// See [`Engine::keys`].
    fn keys(&self, prefix: &str) -> impl Future<Output = Result<Vec<Key>>> + Send {
        self.intercept(Operation::Keys(prefix), self.inner().keys(prefix))
    }

    /// See [`Engine::add`].
    fn add(
        &self,
        key: &Key,
        by: u64,
        window: Option<Window>,
    ) -> impl Future<Output = Result<CounterValue>> + Send {
        self.intercept(Operation::Add(key), self.inner().add(key, by, window))
    }

    /// See [`Engine::swap`].
    fn swap(
        &self,
        key: &Key,
        seen: &str,
        value: &str,
    ) -> impl Future<Output = Result<String>> + Send {
        self.intercept(Operation::Swap(key), self.inner().swap(key, seen, value))
    }

    /// See [`Engine::close`].
    fn close(&self) -> impl Future<Output = ()> + Send {
        self.inner().close()
    }
}

/// An operation and its subject.
///
/// ```
/// use tenure::engine::Operation;
/// use tenure::inspect::{Share, Ticket};
/// use tenure::Key;
///
/// let ticket = Ticket::new(Key::new("a")?, Share::WHOLE);
/// assert_eq!(Operation::Join(&ticket).ticket().map(|ticket| ticket.id), Some(ticket.id));
/// assert!(Operation::Keys("a").ticket().is_none());
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// [`Engine::join`].
    Join(&'a Ticket),
    /// [`Engine::renew`].
    Renew(&'a Ticket),
    /// [`Engine::leave`].
    Leave(&'a Ticket, LeaveMode),
    /// [`Engine::watch`].
    Watch(&'a Ticket),
    /// [`Engine::events`].
    Events(&'a Scope),
    /// [`Engine::line`].
    Line(&'a Key),
    /// [`Engine::keys`].
    Keys(&'a str),
    /// [`Engine::add`].
    Add(&'a Key),
    /// [`Engine::swap`].
    Swap(&'a Key),
}

impl<'a> Operation<'a> {
    /// The ticket, if the operation has one.
    pub fn ticket(self) -> Option<&'a Ticket> {
        match self {
            Self::Join(ticket)
            | Self::Renew(ticket)
            | Self::Leave(ticket, _)
            | Self::Watch(ticket) => Some(ticket),
            Self::Events(_) | Self::Line(_) | Self::Keys(_) | Self::Add(_) | Self::Swap(_) => None,
        }
    }

    /// The label of the metric of requests. `None`: the answer waits for an event, so its time says
    /// nothing about the store.
    pub(crate) fn verb(self) -> Option<&'static str> {
        Some(match self {
            Self::Join(_) => "join",
            Self::Renew(_) => "renew",
            Self::Leave(..) => "leave",
            Self::Watch(_) | Self::Events(_) => return None,
            Self::Line(_) => "line",
            Self::Keys(_) => "keys",
            Self::Add(_) => "add",
            Self::Swap(_) => "swap",
        })
    }

    /// The span of `tracing`.
    pub(crate) fn span(self) -> Span {
        use tracing::debug_span;
        match self {
            Self::Join(Ticket { key, id, .. }) => debug_span!("join", %key, %id),
            Self::Renew(Ticket { key, id, .. }) => debug_span!("renew", %key, %id),
            Self::Leave(Ticket { key, id, .. }, how) => debug_span!("leave", %key, %id, ?how),
            Self::Watch(Ticket { key, id, .. }) => debug_span!("watch", %key, %id),
            Self::Events(scope) => debug_span!("events", ?scope),
            Self::Line(key) => debug_span!("line", %key),
            Self::Keys(prefix) => debug_span!("keys", prefix),
            Self::Add(key) => debug_span!("add", %key),
            Self::Swap(key) => debug_span!("swap", %key),
        }
    }
}

impl<A: Layer> Engine for A {
    fn guarantees(&self) -> Guarantees {
        Layer::profile(self)
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        Layer::join(self, ticket, patience).await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        Layer::renew(self, ticket).await
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        Layer::leave(self, ticket, how).await
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        Layer::watch(self, ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        Layer::events(self, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        Layer::line(self, key).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        Layer::keys(self, prefix).await
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        Layer::add(self, key, by, window).await
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        Layer::swap(self, key, seen, value).await
    }

    async fn close(&self) {
        Layer::close(self).await;
    }
}
