//! Sentinels: a client keeps a connection to one of them, which names the master.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, FromRedisValue as _, PushInfo, PushKind, RedisError,
    RedisResult, Value, cmd,
};
use tenure_core::Result;
use tenure_kit::url::Address;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;

use crate::connect;
use crate::settings::Settings;

/// Channels on which a sentinel names another master: when all steps of that are done, and also at
/// its beginning if the sentinel does it itself.
const CHANNELS: [&str; 2] = ["+switch-master", "+failover-state-reconf-slaves"];
/// Time after which the next sentinel is asked as well.
const HEAD_START: Duration = Duration::from_millis(250);

/// The sentinels of one client.
pub(crate) struct Sentinels {
    settings: Settings,
    service: String,
    doors: Vec<Client>,
    /// The sentinel that is asked first without a connection.
    first: AtomicUsize,
    ear: Mutex<Option<MultiplexedConnection>>,
    /// Count of connections so far.
    pub(crate) made: AtomicU64,
    /// Notified when there may be another master, and when a connection has ended.
    pub(crate) news: Arc<Notify>,
    home: Handle,
}

impl Sentinels {
    /// Returns the sentinels at these addresses. The connection lives on the caller's runtime.
    pub(crate) fn new(settings: &Settings, hosts: &[Address], service: &str) -> Result<Arc<Self>> {
        let login = settings.sentinel_login.clone();
        let theirs = Settings { login, db: 0, ..settings.clone() };
        let door = |host| connect::client(&theirs, connect::address(host, &theirs));
        Ok(Arc::new(Self {
            settings: settings.clone(),
            service: service.to_owned(),
            doors: hosts.iter().map(door).collect::<Result<_>>()?,
            first: AtomicUsize::new(0),
            ear: Mutex::default(),
            made: AtomicU64::new(0),
            news: Arc::default(),
            home: Handle::current(),
        }))
    }

    /// Returns the master's address, from the connected sentinel, or else from the first one that
    /// answers.
    pub(crate) async fn master(self: &Arc<Self>) -> RedisResult<Address> {
        // The connection must outlive the caller, and none is made for a caller that has gone.
        let mut asking = JoinSet::new();
        asking.spawn_on(self.clone().find(), &self.home);
        let found = asking.join_next().await.and_then(std::result::Result::ok);
        found.unwrap_or_else(|| Err(none()))
    }

    /// Notes that the named master cannot be reached, or is none. Returns whether there is another
    /// sentinel, which is asked from now on.
    pub(crate) async fn doubt(&self) -> bool {
        let next = (self.first.load(Ordering::Relaxed) + 1) % self.doors.len();
        self.first.store(next, Ordering::Relaxed);
        *self.ear.lock().await = None;
        self.doors.len() > 1
    }

    async fn find(self: Arc<Self>) -> RedisResult<Address> {
        let mut ear = self.ear.lock().await;
        let (first, number) = (self.first.load(Ordering::Relaxed), self.doors.len());
        let others = (0..number).map(|at| Candidate::New((first + at) % number));
        let mut candidates: VecDeque<_> =
            ear.take().map(Candidate::Kept).into_iter().chain(others).collect();
        let (mut answers, mut refused) = (FuturesUnordered::new(), None);
        loop {
            answers.extend(candidates.pop_front().map(|next| self.ask(next)));
            let head_start = if candidates.is_empty() { Duration::MAX } else { HEAD_START };
            match tokio::time::timeout(head_start, answers.next()).await {
                Ok(Some(Ok((heard, master)))) => {
                    *ear = Some(heard);
                    return Ok(master);
                }
                // A sentinel's answer counts more than another one's silence.
                Ok(Some(Err(error))) if refused.is_none() || !error.is_io_error() => {
                    refused = Some(error);
                }
                Ok(None) => return Err(refused.unwrap_or_else(none)),
                Ok(Some(Err(_))) | Err(_) => {}
            }
        }
    }

    /// Returns the master's address, and the connection over which it came.
    async fn ask(&self, candidate: Candidate) -> RedisResult<(MultiplexedConnection, Address)> {
        let mut connection = match candidate {
            Candidate::Kept(connection) => connection,
            Candidate::New(at) => self.listen(at).await?,
        };
        let mut question = cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        let answer = connection.send_packed_command(&question).await?.extract_error()?;
        match Option::<(String, u16)>::from_redis_value(answer)? {
            Some((name, port)) => Ok((connection, Address { name, port })),
            None => {
                Err((ErrorKind::MasterNameNotFoundBySentinel, "it knows no such master").into())
            }
        }
    }

    /// Opens a connection that subscribes to changes of the master.
    async fn listen(&self, at: usize) -> RedisResult<MultiplexedConnection> {
        self.made.fetch_add(1, Ordering::Relaxed);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.settings.connect_timeout))
            .set_response_timeout(Some(self.settings.timeout))
            .set_push_sender(self.pushes());
        let door = &self.doors[at];
        let mut connection = door.get_multiplexed_async_connection_with_config(&config).await?;
        connection.subscribe(&CHANNELS).await?;
        Ok(connection)
    }

    fn pushes(&self) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
        let (news, service) = (self.news.clone(), self.service.clone());
        move |push| {
            let is_ours = |text: &Value| match text {
                Value::BulkString(text) => {
                    text.split(|byte| *byte == b' ').any(|word| word == service.as_bytes())
                }
                _ => false,
            };
            match (push.kind, &push.data[..]) {
                (PushKind::Message, [_, text]) if is_ours(text) => news.notify_one(),
                (PushKind::Disconnection, _) => news.notify_one(),
                _ => {}
            }
            Ok(())
        }
    }
}

fn none() -> RedisError {
    (ErrorKind::Io, "no sentinel can be asked").into()
}

/// A way to ask a sentinel.
enum Candidate {
    /// Over the open connection.
    Kept(MultiplexedConnection),
    /// Over a new one, to the sentinel with this index.
    New(usize),
}
