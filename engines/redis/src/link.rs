//! A link to the server that keeps the lines: opening a connection to it, and its state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use futures_util::future::{join, try_join_all};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, PushInfo, PushKind, RedisResult, Value, cmd};
use tenure_core::{Error, Result};
use tenure_kit::SingleFlight;
use tenure_kit::subscriptions::Subscriptions;
use tenure_kit::{ConnectContext, DisconnectNotifier, Disconnected, Origin, Server, ServerClient};
use tokio::time::timeout;

use crate::batch::Batcher;
use crate::facts::ServerFacts;
use crate::letter;
use crate::pending_call::Unanswered;
use crate::resolver::Resolver;
use crate::script::{NotifyVia, Scripts};
use crate::settings::{At, Settings};
use crate::trouble;

/// A link to the master.
pub(crate) type MasterLink = tenure_kit::Link<Master>;
/// A connection to the master.
pub(crate) type MasterConnection = tenure_kit::Connection<ConnectionState>;

/// The server that keeps the lines, which may be another one tomorrow.
pub(crate) struct Master {
    pub(crate) settings: Settings,
    pub(crate) scripts: Scripts,
    pub(crate) door: Resolver,
    mail: Arc<Subscriptions>,
    /// The name of this client's inbox.
    inbox: String,
    /// Whether a usable server was found.
    is_met: AtomicBool,
}

/// The state of an open connection.
pub(crate) struct ConnectionState {
    pub(crate) redis: MultiplexedConnection,
    pub(crate) facts: ServerFacts,
    pub(crate) since: Instant,
    /// Requests for the number of replicas that have all writes so far.
    pub(crate) acks: SingleFlight<Result<u64>>,
    pub(crate) unanswered: Unanswered,
    pub(crate) batcher: Batcher,
    pub(crate) loads: SingleFlight<RedisResult<()>>,
    /// The address of its server.
    pub(crate) address: Box<str>,
}

impl Master {
    /// Returns a client of the server of these settings.
    pub(crate) fn client(
        at: &At,
        settings: &Settings,
        mail: Arc<Subscriptions>,
        inbox: String,
    ) -> Result<Arc<ServerClient<Self>>> {
        Ok(ServerClient::new(Self {
            settings: settings.clone(),
            scripts: Scripts::new(NotifyVia::Channel),
            door: Resolver::new(at, settings)?,
            mail,
            inbox,
            is_met: AtomicBool::new(false),
        }))
    }

    async fn try_to_open(&self, opening: &ConnectContext) -> Result<ConnectionState> {
        let Self { settings, door, .. } = self;
        let is_home = opening.side() == Origin::Home;
        let pushes = is_home.then(|| pushes(self.mail.clone(), opening.lost()));
        let (redis, address) = door.open(pushes).await?;
        let (info, config) = ServerFacts::questions();
        let asked = timeout(settings.timeout, join(say(&redis, &info), say(&redis, &config)));
        let (info, config) = asked.await.map_err(|_| trouble::late(settings))?;
        let facts = ServerFacts::of(info, config);
        let fit = facts.fit(settings);
        if self.is_met.load(Ordering::Relaxed) {
            // It was a master when it was first reached, and may be one again.
            fit.map_err(|error| Error::unavailable(error.to_string()))?;
        } else {
            fit?;
        }
        self.is_met.store(true, Ordering::Relaxed);
        let mut open = ConnectionState {
            redis,
            facts,
            since: Instant::now(),
            acks: SingleFlight::default(),
            unanswered: Unanswered::new(),
            batcher: Batcher::default(),
            loads: SingleFlight::default(),
            address: address.into(),
        };
        if is_home {
            let channel = settings.channels() + &self.inbox;
            let heard = timeout(settings.timeout, open.redis.subscribe(channel)).await;
            trouble::answered(settings, heard.unwrap_or_else(|_| Err(trouble::silence())))?;
            self.mail.interrupted();
        }
        Ok(open)
    }
}

impl Server for Master {
    type Open = ConnectionState;

    /// If a sentinel's server is no master, another sentinel is asked.
    async fn open(&self, opening: &ConnectContext) -> Result<ConnectionState> {
        match self.try_to_open(opening).await {
            Err(error) if error.is_retryable() && self.door.doubt().await => {
                self.try_to_open(opening).await
            }
            opened => opened,
        }
    }
}

impl ConnectionState {
    /// Sends a request that costs the server nothing. The server answers it after every call that
    /// was sent before.
    pub(crate) async fn ping(&self) -> Result<(), Disconnected> {
        match say(&self.redis, &cmd("PING")).await {
            Err(trouble) if trouble::ends_connection(&trouble) => Err(Disconnected),
            _ => Ok(()),
        }
    }

    /// Loads scripts into the server.
    pub(crate) async fn load(&self, loads: &[Cmd]) -> RedisResult<()> {
        try_join_all(loads.iter().map(|load| say(&self.redis, load))).await.map(drop)
    }
}

/// Returns the receiver of the server's pushes.
fn pushes(
    mail: Arc<Subscriptions>,
    lost: DisconnectNotifier,
) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
    move |push| {
        match (push.kind, &push.data[..]) {
            (PushKind::Message, [_, Value::BulkString(text)]) => letter::deliver(&mail, text),
            (PushKind::Disconnection, _) => lost.tell(),
            _ => {}
        }
        Ok(())
    }
}

/// Sends one command that is no script.
async fn say(redis: &MultiplexedConnection, command: &Cmd) -> RedisResult<Value> {
    // A refusal comes as an answer.
    redis.clone().send_packed_command(command).await?.extract_error()
}
