//! Around: an engine around another one that says only what it does differently.

use std::future::Future;

use tracing::Span;

use crate::event::{Cursor, News, Scope};
use crate::{
    Engine, Key, Leave, Left, Patience, Place, Profile, Result, Standing, Tally, Ticket, Wake,
    Window,
};

/// An engine around another one. Whatever it does not say, the inner one does.
///
/// Each verb goes through [`pass`](Around::pass), which is the place for what all of them have in common. A verb that is
/// different from the others is written out.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// use tenure::engine::{Around, Question};
/// use tenure::{Locks, Result, engine::Memory};
///
/// /// Counts what is asked of a store.
/// struct Counted(Memory, AtomicU32);
///
/// impl Around for Counted {
///     type Inner = Memory;
///
///     fn inner(&self) -> &Memory {
///         &self.0
///     }
///
///     async fn pass<T: Send>(&self, _: Question<'_>, ask: impl Future<Output = Result<T>> + Send) -> Result<T> {
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
pub trait Around: Send + Sync + 'static {
    /// What it is around.
    type Inner: Engine;

    /// The engine inside.
    fn inner(&self) -> &Self::Inner;

    /// What it promises: what the inner one does.
    fn profile(&self) -> Profile {
        self.inner().profile()
    }

    /// Every verb but [`Engine::close`], on its way to the inner engine.
    fn pass<T: Send>(
        &self,
        _question: Question<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send {
        ask
    }

    /// See [`Engine::join`].
    fn join(
        &self,
        ticket: &Ticket,
        patience: Patience,
    ) -> impl Future<Output = Result<Option<Place>>> + Send {
        self.pass(Question::Join(ticket), self.inner().join(ticket, patience))
    }

    /// See [`Engine::renew`].
    fn renew(&self, ticket: &Ticket) -> impl Future<Output = Result<Option<Place>>> + Send {
        self.pass(Question::Renew(ticket), self.inner().renew(ticket))
    }

    /// See [`Engine::leave`].
    fn leave(&self, ticket: &Ticket, how: Leave) -> impl Future<Output = Result<Left>> + Send {
        self.pass(Question::Leave(ticket, how), self.inner().leave(ticket, how))
    }

    /// See [`Engine::watch`].
    fn watch(&self, ticket: &Ticket, seen: Standing) -> impl Future<Output = Result<Wake>> + Send {
        self.pass(Question::Watch(ticket), self.inner().watch(ticket, seen))
    }

    /// See [`Engine::events`].
    fn events(
        &self,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> impl Future<Output = Result<News>> + Send {
        self.pass(Question::Events(scope), self.inner().events(scope, after))
    }

    /// See [`Engine::line`].
    fn line(&self, key: &Key) -> impl Future<Output = Result<Vec<(Ticket, Place)>>> + Send {
        self.pass(Question::Line(key), self.inner().line(key))
    }

    /// See [`Engine::keys`].
    fn keys(&self, prefix: &str) -> impl Future<Output = Result<Vec<Key>>> + Send {
        self.pass(Question::Keys(prefix), self.inner().keys(prefix))
    }

    /// See [`Engine::tally`].
    fn tally(
        &self,
        key: &Key,
        by: u64,
        window: Option<Window>,
    ) -> impl Future<Output = Result<Tally>> + Send {
        self.pass(Question::Tally(key), self.inner().tally(key, by, window))
    }

    /// See [`Engine::close`].
    fn close(&self) -> impl Future<Output = ()> + Send {
        self.inner().close()
    }
}

/// What is asked, and about what.
///
/// ```
/// use tenure::engine::Question;
/// use tenure::{Key, Share, Ticket};
///
/// let ticket = Ticket::new(Key::new("a")?, Share::WHOLE);
/// assert_eq!(Question::Join(&ticket).ticket().map(|ticket| ticket.id), Some(ticket.id));
/// assert!(Question::Keys("a").ticket().is_none());
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Question<'a> {
    /// [`Engine::join`].
    Join(&'a Ticket),
    /// [`Engine::renew`].
    Renew(&'a Ticket),
    /// [`Engine::leave`].
    Leave(&'a Ticket, Leave),
    /// [`Engine::watch`].
    Watch(&'a Ticket),
    /// [`Engine::events`].
    Events(&'a Scope),
    /// [`Engine::line`].
    Line(&'a Key),
    /// [`Engine::keys`].
    Keys(&'a str),
    /// [`Engine::tally`].
    Tally(&'a Key),
}

impl<'a> Question<'a> {
    /// The ticket, where it is asked for one.
    pub fn ticket(self) -> Option<&'a Ticket> {
        match self {
            Self::Join(ticket)
            | Self::Renew(ticket)
            | Self::Leave(ticket, _)
            | Self::Watch(ticket) => Some(ticket),
            Self::Events(_) | Self::Line(_) | Self::Keys(_) | Self::Tally(_) => None,
        }
    }

    /// A span for `tracing`.
    pub(super) fn span(self) -> Span {
        use tracing::debug_span;
        match self {
            Self::Join(Ticket { key, id, .. }) => debug_span!("join", %key, %id),
            Self::Renew(Ticket { key, id, .. }) => debug_span!("renew", %key, %id),
            Self::Leave(Ticket { key, id, .. }, how) => debug_span!("leave", %key, %id, ?how),
            Self::Watch(Ticket { key, id, .. }) => debug_span!("watch", %key, %id),
            Self::Events(scope) => debug_span!("events", ?scope),
            Self::Line(key) => debug_span!("line", %key),
            Self::Keys(prefix) => debug_span!("keys", prefix),
            Self::Tally(key) => debug_span!("tally", %key),
        }
    }
}

impl<A: Around> Engine for A {
    fn profile(&self) -> Profile {
        Around::profile(self)
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        Around::join(self, ticket, patience).await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        Around::renew(self, ticket).await
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        Around::leave(self, ticket, how).await
    }

    async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        Around::watch(self, ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        Around::events(self, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        Around::line(self, key).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        Around::keys(self, prefix).await
    }

    async fn tally(&self, key: &Key, by: u64, window: Option<Window>) -> Result<Tally> {
        Around::tally(self, key, by, window).await
    }

    async fn close(&self) {
        Around::close(self).await;
    }
}
