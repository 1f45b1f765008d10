//! One session of ZooKeeper, with its current connection, and limits for requests over it.
//!
//! Requests are sent in the order in which their futures are made, and are answered in that order.
//! So a listing that is requested after a create shows the line with it. Several requests are sent
//! at once and awaited together.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tenure_core::sync::Mutex;
use tenure_core::{Clock as _, Result, SystemClock};
use tenure_kit::SingleFlight;
use tenure_queue::LineId;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use zookeeper_client::{Client, Error as Said, SessionState, StateWatcher};

use crate::names::Listing;
use crate::settings::Settings;
use crate::signs::Signs;
use crate::task::{SessionTask, spawned_by};
use crate::trouble;
use crate::watches::{NodeWatches, UntilDropped};

/// Maximum callers that wait for answers of one session.
const UNDER_WAY_MAX: usize = 1024;

/// Maximum attempts to open a session together with the login.
const TOGETHER_MAX: usize = 3;
/// The scheme of the login.
const DIGEST: &str = "digest";

/// A session, until it is dropped: then it is closed.
///
/// Fields are dropped in the order in which they are declared.
pub(crate) struct ServerSession {
    /// Dropped before the client: its task ends then, and the client crate panics when a watch is
    /// polled after that.
    pub(crate) watches: UntilDropped,
    client: Client,
    _task: Option<SessionTask>,
    listings: Mutex<HashMap<LineId, Weak<Listings>>>,
    settings: Arc<Settings>,
    room: Semaphore,
    signs: Mutex<Signs>,
    /// When it lost its connection.
    cut_off: Arc<Mutex<Option<Instant>>>,
    /// When a request was answered last.
    heard: Mutex<Instant>,
    /// A request had no answer in time, and none after it had one.
    is_silent: AtomicBool,
}

/// The listings of one line.
pub(crate) type Listings = SingleFlight<Result<Arc<Listing>, Said>>;

/// The permission to send requests.
pub(crate) struct RequestPermit<'a> {
    client: &'a Client,
    _room: SemaphorePermit<'a>,
}

impl Deref for RequestPermit<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client
    }
}

impl ServerSession {
    /// Opens a session that lives for about `ttl` without a sign of life.
    pub(crate) async fn open(settings: &Arc<Settings>, ttl: Duration) -> Result<Arc<Self>> {
        let signs = Mutex::new(Signs::since(SystemClock.now()));
        let connected = match timeout(settings.connects_within(), log_in(settings, ttl)).await {
            Ok(connected) => connected?,
            Err(_) => return Err(trouble::late(settings)),
        };
        let (client, task) = connected.map_err(|said| trouble::error(settings, &said))?;
        let (watches, cut_off) = (NodeWatches::new(), Arc::<Mutex<_>>::default());
        let stirs = stir(watches.clone(), cut_off.clone(), client.state_watcher());
        let stirs = tokio::spawn(stirs).abort_handle();
        Ok(Arc::new(Self {
            client,
            _task: task,
            watches: UntilDropped { watches, stirs },
            listings: Mutex::default(),
            settings: settings.clone(),
            room: Semaphore::new(UNDER_WAY_MAX),
            signs,
            cut_off,
            heard: Mutex::new(Instant::now()),
            is_silent: AtomicBool::new(false),
        }))
    }

    /// Returns the listings of a line, which concurrent callers share.
    pub(crate) fn listings_of(&self, line: &LineId) -> Arc<Listings> {
        let mut lines = self.listings.lock();
        if let Some(listings) = lines.get(line).and_then(Weak::upgrade) {
            return listings;
        }
        lines.retain(|_, listings| listings.strong_count() > 0);
        let listings = Arc::default();
        lines.insert(line.clone(), Arc::downgrade(&listings));
        listings
    }

    /// Returns the session's number.
    pub(crate) fn session(&self) -> u64 {
        self.client.session_id().0.cast_unsigned()
    }

    /// Returns how long the session lives without a sign of life, as the server granted it.
    pub(crate) fn granted(&self) -> Duration {
        self.client.session_timeout()
    }

    /// Returns whether it is over, for good.
    pub(crate) fn is_over(&self) -> bool {
        self.client.state().is_terminated()
    }

    /// Returns how long it has had no connection. The client crate retries with backoff for as long
    /// as the session may live.
    pub(crate) fn cut_off_for(&self) -> Duration {
        let since = *self.cut_off.lock();
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns whether it answers no request, although it has a connection. The client crate takes
    /// any byte for a sign of life.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Subscribes to the state of its connection.
    pub(crate) fn states(&self) -> StateWatcher {
        let mut states = self.client.state_watcher();
        let _ = states.state(); // marks the current state as seen
        states
    }

    /// Waits for a connection, and for room. A request without a connection would be carried out
    /// later, without a caller.
    pub(crate) async fn turn(&self) -> Result<RequestPermit<'_>, Said> {
        if self.client.state() == SessionState::SyncConnected
            && let Ok(room) = self.room.try_acquire()
        {
            return Ok(RequestPermit { client: &self.client, _room: room });
        }
        self.within_timeout(async {
            let room = self.room.acquire().await.map_err(|_| Said::ClientClosed)?;
            let mut states = self.client.state_watcher();
            let mut state = self.client.state();
            loop {
                match state {
                    SessionState::SyncConnected => break,
                    SessionState::Expired => return Err(Said::SessionExpired),
                    SessionState::AuthFailed => return Err(Said::AuthFailed),
                    SessionState::Closed => return Err(Said::ClientClosed),
                    _ => state = states.changed().await,
                }
            }
            Ok(RequestPermit { client: &self.client, _room: room })
        })
        .await?
    }

    /// Waits for an answer, or returns an error at the time limit. The client crate ends a
    /// connection that receives nothing.
    pub(crate) async fn in_time<T>(&self, answer: impl Future<Output = T>) -> Result<T, Said> {
        let asked = Instant::now();
        let answer = self.within_timeout(answer).await;
        let mut heard = self.heard.lock();
        if answer.is_ok() {
            *heard = Instant::now();
        }
        self.is_silent.store(*heard < asked, Ordering::Relaxed);
        answer
    }

    async fn within_timeout<T>(&self, answer: impl Future<Output = T>) -> Result<T, Said> {
        timeout(self.settings.timeout, answer).await.map_err(|_| Said::Timeout)
    }

    /// Sends a `sync` by way of the leader. A leader that was cut off from the others answers it by
    /// itself until it knows that.
    pub(crate) async fn ping(&self, path: &str) -> Result<(), Said> {
        let turn = self.turn().await?;
        self.in_time(turn.sync(path)).await?
    }

    /// Sends a sign of life to an ensemble: it writes to a node, because only a majority confirms a
    /// write. Returns how long before it the last sign was sent that the leader surely knows,
    /// because it was answered at least `older` earlier. Another server may be between.
    pub(crate) async fn sign(&self, path: &str, older: Duration) -> Result<Duration, Said> {
        let sent = SystemClock.now();
        let turn = self.turn().await?;
        self.in_time(turn.set_data(path, b"", None)).await??;
        let now = SystemClock.now();
        let mut signs = self.signs.lock();
        Ok(signs.answered(sent, now, older))
    }

    /// Closes the session, and waits until it is closed.
    pub(crate) async fn close(self: Arc<Self>) {
        let mut states = self.client.state_watcher();
        let (mut state, within) = (self.client.state(), self.settings.timeout);
        // Other callers of the session get an answer soon, and drop it then.
        drop(self);
        let closed = timeout(within, async {
            while !state.is_terminated() {
                state = states.changed().await;
            }
        });
        if closed.await.is_err() {
            tracing::debug!("a session is in use, and is left to end by itself");
        }
    }
}

/// A client with an open session, and the task of that.
type OpenedSession = (Client, Option<SessionTask>);

/// Opens a new session, logged in if the URL has a user.
async fn log_in(settings: &Settings, ttl: Duration) -> Result<Result<OpenedSession, Said>> {
    let (Some(user), Some(password)) = (&settings.login.user, &settings.login.password) else {
        return connect(settings, ttl, None).await;
    };
    let login = format!("{user}:{}", password.reveal());
    // The login travels with the first request. Servers with Netty, which all have for TLS, may
    // answer the login before the first request. The client crate takes that for a broken
    // connection. At last the login goes alone. Servers that accept only clients with a login
    // refuse that (`enforce.auth.enabled`).
    for _ in 0..TOGETHER_MAX {
        let connected = connect(settings, ttl, Some(&login)).await?;
        if !matches!(connected, Err(Said::NoHosts)) {
            return Ok(connected);
        }
    }
    Ok(match connect(settings, ttl, None).await? {
        Ok(opened) => opened.0.auth(DIGEST, login.as_bytes()).await.map(|()| opened),
        refused => refused,
    })
}

async fn connect(
    settings: &Settings,
    ttl: Duration,
    login: Option<&str>,
) -> Result<Result<OpenedSession, Said>> {
    let mut connector = Client::connector()
        .with_session_timeout(ttl)
        .with_connection_timeout(settings.timeout)
        .with_fail_eagerly();
    if let Some(login) = login {
        connector = connector.with_auth(DIGEST, login.as_bytes());
    }
    let ensemble = settings.ensemble();
    let (connected, task) = spawned_by::<Result<_>>(async {
        #[cfg(feature = "tls")]
        if let Some(tls) = &settings.tls {
            return crate::tls::connect(connector, tls, &ensemble).await;
        }
        Ok(connector.connect(&ensemble).await)
    })
    .await;
    Ok(connected?.map(|client| {
        let life = client.session_timeout();
        (client, task.map(|task| SessionTask::keep(task, life)))
    }))
}

/// Makes all watches read again when the connection has changed, and when the session is over.
async fn stir(
    watches: NodeWatches,
    cut_off: Arc<Mutex<Option<Instant>>>,
    mut states: StateWatcher,
) {
    loop {
        let state = states.changed().await;
        let is_cut_off = state == SessionState::Disconnected;
        *cut_off.lock() = is_cut_off.then(Instant::now);
        if !is_cut_off {
            watches.stir();
        }
        if state.is_terminated() {
            return;
        }
    }
}
