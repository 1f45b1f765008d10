//! The driver's connection to a cluster. It is opened at first use, and again once its answers
//! cannot be matched to requests any more.

use std::io;
use std::sync::{Arc, MutexGuard, OnceLock};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use redis::RedisResult;
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use tenure_kit::url::Address;
use tokio::runtime::Handle;

use tenure_core::sync::Mutex;

use super::connect_throttle::ConnectThrottle;
use super::nodes;
use crate::settings::Settings;
use crate::trouble;

/// One connection to all servers of a cluster.
pub(super) struct Driver {
    seeds: Vec<Address>,
    settings: Settings,
    tries: ConnectThrottle,
    sends_again: bool,
    /// The runtime of the connection, for all callers.
    home: Handle,
    open: Mutex<Open>,
}

/// The connection, or its opening, until its answers cannot be matched any more.
pub(super) type Open = Arc<Way>;

#[derive(Default)]
pub(super) struct Way {
    connection: OnceLock<ClusterConnection>,
    /// One attempt to connect at a time, at any count of waiting calls.
    attempt: Mutex<Option<Attempt>>,
}

type Attempt = Shared<BoxFuture<'static, RedisResult<ClusterConnection>>>;

impl Driver {
    /// The driver resends a call whose answer is lost. Begins with this connection.
    pub(super) fn of(
        connection: ClusterConnection,
        seeds: &[Address],
        settings: &Settings,
        tries: &ConnectThrottle,
    ) -> Arc<Self> {
        let way = Way { connection: connection.into(), attempt: Mutex::default() };
        Self::with(seeds, settings, tries, true, Arc::new(way))
    }

    /// No call is sent again. It connects for the first call.
    pub(super) fn once(
        seeds: &[Address],
        settings: &Settings,
        tries: &ConnectThrottle,
    ) -> Arc<Self> {
        Self::with(seeds, settings, tries, false, Open::default())
    }

    fn with(
        seeds: &[Address],
        settings: &Settings,
        tries: &ConnectThrottle,
        sends_again: bool,
        open: Open,
    ) -> Arc<Self> {
        let (seeds, settings, tries) = (seeds.to_vec(), settings.clone(), tries.clone());
        let (home, open) = (Handle::current(), Mutex::new(open));
        Arc::new(Self { seeds, settings, tries, sends_again, home, open })
    }

    /// Runs a request over the connection.
    pub(super) async fn ask<T, F>(
        self: &Arc<Self>,
        question: impl FnOnce(ClusterConnection) -> F,
    ) -> RedisResult<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let open = self.now();
        let answer = self.ask_over(&open, question).await;
        self.known(&open, answer)
    }

    /// The same over this connection, for a caller that later checks whether the answer is
    /// [known](Self::known).
    pub(super) async fn ask_over<T, F>(
        self: &Arc<Self>,
        open: &Open,
        question: impl FnOnce(ClusterConnection) -> F,
    ) -> RedisResult<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        question(self.connected(open).await?).await
    }

    /// Returns an error if the answers of this connection could not be matched any more meanwhile.
    pub(super) fn known<T>(&self, open: &Open, answer: RedisResult<T>) -> RedisResult<T> {
        if Arc::ptr_eq(open, &self.open()) { answer } else { Err(trouble::over()) }
    }

    /// Returns the connection for a call that begins now.
    pub(super) fn now(&self) -> Open {
        self.open().clone()
    }

    /// Drops the connection: the next request uses another one. The driver ends this one when no
    /// caller waits for its answers any more.
    pub(super) fn distrust(&self) {
        let mut open = self.open();
        if open.connection.get().is_some() {
            *open = Open::default();
        }
    }

    /// Returns the connection. A task of its own opens it, so that a caller that gives up does not
    /// end it, and the next call finds it.
    async fn connected(self: &Arc<Self>, open: &Open) -> RedisResult<ClusterConnection> {
        if let Some(connection) = open.connection.get() {
            return Ok(connection.clone());
        }
        let attempt = {
            let mut attempt = open.attempt.lock();
            let under_way = attempt.take().filter(|attempt| attempt.peek().is_none());
            attempt.insert(under_way.unwrap_or_else(|| self.connect(open))).clone()
        };
        attempt.await
    }

    fn connect(self: &Arc<Self>, open: &Open) -> Attempt {
        let (this, open) = (self.clone(), open.clone());
        let made = self.home.spawn(async move {
            let connection = nodes::connect(this.client()?).await?;
            Ok(open.connection.get_or_init(|| connection).clone())
        });
        made.map(|made| made.unwrap_or_else(|_| Err(trouble::over()))).boxed().shared()
    }

    fn client(&self) -> RedisResult<ClusterClientBuilder> {
        let Self { seeds, settings, tries, .. } = self;
        let client = nodes::client(seeds, settings, tries).map_err(io::Error::other)?;
        // The driver waits for every node, replicas too. A node that stands still must leave time
        // for the call.
        let connect_timeout = settings.connect_timeout.min(settings.timeout / 2);
        let client = client.connection_timeout(connect_timeout);
        Ok(if self.sends_again { client } else { client.retries(0) })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }
}
