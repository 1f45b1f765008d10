//! A twist: the memory engine with one of its verbs broken.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::event::{Cursor, News, Scope};
use tenure_core::{
    Engine, Key, Leave, Left, Memory, Patience, Place, Profile, Result, Standing, Tally, Ticket,
    Wake, Window,
};

/// A case in which an engine is asked more often than this does not end.
const VERBS_MAX: u64 = 20_000;

/// What a broken engine does differently; all else is what memory does.
pub(crate) trait Twist: Send + Sync + 'static {
    fn memory(&self) -> &Memory;

    fn join(
        &self,
        ticket: &Ticket,
        patience: Patience,
    ) -> impl Future<Output = Result<Option<Place>>> + Send {
        self.memory().join(ticket, patience)
    }

    fn renew(&self, ticket: &Ticket) -> impl Future<Output = Result<Option<Place>>> + Send {
        self.memory().renew(ticket)
    }

    fn leave(&self, ticket: &Ticket, how: Leave) -> impl Future<Output = Result<Left>> + Send {
        self.memory().leave(ticket, how)
    }

    fn watch(&self, ticket: &Ticket, seen: Standing) -> impl Future<Output = Result<Wake>> + Send {
        self.memory().watch(ticket, seen)
    }

    fn events(
        &self,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> impl Future<Output = Result<News>> + Send {
        self.memory().events(scope, after)
    }

    fn line(&self, key: &Key) -> impl Future<Output = Result<Vec<(Ticket, Place)>>> + Send {
        self.memory().line(key)
    }

    fn keys(&self, prefix: &str) -> impl Future<Output = Result<Vec<Key>>> + Send {
        self.memory().keys(prefix)
    }

    fn tally(
        &self,
        key: &Key,
        by: u64,
        window: Option<Window>,
    ) -> impl Future<Output = Result<Tally>> + Send {
        self.memory().tally(key, by, window)
    }
}

/// The engine that a twist makes. It refuses to be asked for ever.
pub(crate) struct Twisted<T> {
    twist: T,
    asked: Arc<AtomicU64>,
}

impl<T: Twist> Twisted<T> {
    pub(crate) fn new(twist: T, asked: Arc<AtomicU64>) -> Self {
        Self { twist, asked }
    }

    fn ask(&self) -> &T {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let ends = asked < VERBS_MAX || std::thread::panicking();
        assert!(ends, "the engine is asked again and again, and it does not end");
        &self.twist
    }
}

impl<T: Twist> Engine for Twisted<T> {
    fn profile(&self) -> Profile {
        self.twist.memory().profile()
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        self.ask().join(ticket, patience).await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.ask().renew(ticket).await
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        self.ask().leave(ticket, how).await
    }

    async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        self.ask().watch(ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        self.ask().events(scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.ask().line(key).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.ask().keys(prefix).await
    }

    async fn tally(&self, key: &Key, by: u64, window: Option<Window>) -> Result<Tally> {
        self.ask().tally(key, by, window).await
    }

    async fn close(&self) {
        self.ask().memory().close().await;
    }
}

/// Where a ticket stands, without a sign of life from its owner.
pub(crate) async fn place_of(memory: &Memory, ticket: &Ticket) -> Result<Option<Place>> {
    let line = memory.line(&ticket.key).await?;
    Ok(line.into_iter().find(|(other, _)| other.id == ticket.id).map(|(_, place)| place))
}

/// The same ticket with another id.
pub(crate) fn ghost(ticket: &Ticket) -> Ticket {
    Ticket { id: tenure_core::TicketId::fresh(), ..ticket.clone() }
}

/// A twist of this name: its state is shared by all clients through `Shared`.
macro_rules! twist {
    ($(#[$doc:meta])* $name:ident { $($verbs:tt)* }) => {
        $(#[$doc])*
        pub(crate) struct $name(pub crate::Store);

        impl crate::twist::Twist for $name {
            fn memory(&self) -> &tenure_core::Memory {
                &self.0.memory
            }

            $($verbs)*
        }
    };
}
pub(crate) use twist;
