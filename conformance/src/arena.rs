//! Where a case is played: a fresh store, any number of clients, and a clock.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::wrap::{AnyEngine, Hosted};
use tenure_core::{
    Boxed, Engine, Host, Key, Locks, PrivateThread, Profile, Result, Share, Ticket, TicketId,
};

/// A fresh store for one case.
pub struct Arena {
    open: Box<dyn Fn() -> Boxed<Result<AnyEngine>> + Send + Sync>,
    host: Arc<dyn Host>,
    /// The ttl that tickets have here: short where time is real.
    ttl: Duration,
    /// Dropped after the case: a directory, a server.
    _kept: Vec<Box<dyn Any + Send + Sync>>,
}

impl Arena {
    /// A store that `open` connects another client to, in real time. For engines whose verbs are quick.
    pub fn new<E, F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        E: Engine,
        F: Future<Output = Result<E>> + Send + 'static,
    {
        let host: Arc<dyn Host> = Arc::new(PrivateThread::for_timers());
        Self::on(host, Duration::from_secs(1), open)
    }

    /// The same for engines that drive sockets: each client lives on one private thread.
    pub fn hosted<E, F>(open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        E: Engine,
        F: Future<Output = Result<E>> + Send + 'static,
    {
        let host: Arc<dyn Host> = Arc::new(PrivateThread::for_drivers());
        let home = host.clone();
        Self::on(host, Duration::from_secs(1), move || Hosted::make(home.clone(), open()))
    }

    /// A store whose clients live on this host, where tickets live for `ttl`.
    pub fn on<E, F>(
        host: Arc<dyn Host>,
        ttl: Duration,
        open: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        E: Engine,
        F: Future<Output = Result<E>> + Send + 'static,
    {
        let open = move || -> Boxed<Result<AnyEngine>> {
            let opened = open();
            Box::pin(async move { opened.await.map(AnyEngine::new) })
        };
        Self { open: Box::new(open), host, ttl, _kept: Vec::new() }
    }

    /// Keeps something alive until the case has ended.
    #[must_use]
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self._kept.push(Box::new(thing));
        self
    }

    /// Another client of the same store.
    pub async fn client(&self) -> AnyEngine {
        (self.open)().await.expect("the store can be opened")
    }

    /// The locks of another client.
    pub async fn locks(&self) -> Locks {
        Locks::on(self.client().await, self.host.clone())
    }

    /// What the store promises.
    pub async fn profile(&self) -> Profile {
        self.client().await.profile()
    }

    /// Where the clients live.
    pub fn host(&self) -> Arc<dyn Host> {
        self.host.clone()
    }

    /// How long a ticket lives here without a sign of life.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Lets time pass.
    pub async fn pass(&self, time: Duration) {
        self.host.sleep(time).await;
    }

    /// A fresh ticket for this key.
    pub fn ticket(&self, key: &str, share: Share) -> Ticket {
        Ticket {
            id: TicketId::fresh(),
            key: Key::new(key).expect("the case names a key"),
            share,
            ttl: self.ttl,
            owner: "conformance".into(),
            note: "".into(),
            floor: 0,
        }
    }
}
