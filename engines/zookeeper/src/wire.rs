//! One session of ZooKeeper, with its current connection, and limits for requests over it.
//!
//! Requests are sent in the order in which their futures are made, and are answered in that order.
//! So a listing that is requested after a create shows the line with it. Several requests are sent
//! at once and awaited together.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::OptionFuture;
use tenure_core::{Clock as _, Result, SystemClock};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use zookeeper_client::{Client, Error as Said, SessionState, StateWatcher};

use crate::driven::{Leash, be_seen, driven};
use crate::looks::Looks;
use crate::settings::Settings;
use crate::signs::Signs;
use crate::tls;
use crate::trouble;
use crate::watches::{UntilDropped, Watches};

/// Maximum callers on the home runtime that wait for answers of one session.
const UNDER_WAY_MAX: usize = 1024;
/// Maximum verbs of a client in flight on other runtimes. Further ones use the home runtime, so
/// that a runtime that stops in the middle of many blocks no other caller.
pub(crate) const IN_PLACE_MAX: usize = 512;
/// Part of a session's life for which the home runtime may be out of sight.
const OUT_OF_SIGHT: u32 = 3;

/// Maximum attempts to open a session together with the login.
const TOGETHER_MAX: usize = 3;
/// The scheme of the login.
const DIGEST: &str = "digest";

/// A session, until it is dropped: then it is closed.
///
/// Fields are dropped in the order in which they are declared.
pub(crate) struct Wire {
    /// Dropped before the leash. If the home runtime has ended, the leash drops the client's task,
    /// and the client crate panics when a watch is polled after that.
    pub(crate) watches: UntilDropped,
    client: Client,
    /// Dropped after the client, so that the client's task sends what the client left behind and
    /// then ends.
    leash: Arc<Leash>,
    pub(crate) looks: Looks,
    settings: Arc<Settings>,
    /// The runtime that this session was opened on.
    home: Handle,
    room: Semaphore,
    signs: Mutex<Signs>,
    /// When it lost its connection.
    cut_off: Arc<Mutex<Option<Instant>>>,
    /// When a request was answered last.
    heard: Mutex<Instant>,
    /// A request had no answer in time, and none after it had one.
    is_silent: AtomicBool,
}

/// The permission to send requests.
pub(crate) struct Turn<'a> {
    client: &'a Client,
    _room: Option<SemaphorePermit<'a>>,
}

impl Deref for Turn<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.client
    }
}

impl Wire {
    /// Opens a session that lives for about `ttl` without a sign of life.
    pub(crate) async fn open(settings: &Arc<Settings>, ttl: Duration) -> Result<Arc<Self>> {
        let signs = Mutex::new(Signs::since(SystemClock.now()));
        let (client, leash) = match timeout(settings.connects_within(), log_in(settings, ttl)).await
        {
            Ok(connected) => connected?,
            Err(_) => return Err(trouble::late(settings)),
        };
        let client = client.map_err(|said| trouble::error(settings, &said))?;
        let leash = Arc::new(leash);
        let (watches, cut_off) = (Watches::default(), Arc::<Mutex<_>>::default());
        let stirs = stir(watches.clone(), cut_off.clone(), client.state_watcher());
        let stirs = tokio::spawn(stirs).abort_handle();
        let (room, home) = (Semaphore::new(UNDER_WAY_MAX), Handle::current());
        let wire = Arc::new(Self {
            client,
            leash,
            watches: UntilDropped { watches, stirs },
            looks: Looks::default(),
            settings: settings.clone(),
            home,
            room,
            signs,
            cut_off,
            heard: Mutex::new(Instant::now()),
            is_silent: AtomicBool::new(false),
        });
        wire.leash.end_within(wire.granted());
        let out_of_sight = wire.granted() / OUT_OF_SIGHT;
        tokio::spawn(be_seen(Arc::downgrade(&wire.leash), out_of_sight));
        Ok(wire)
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
        self.leash.is_stopped() || self.client.state().is_terminated()
    }

    /// Returns whether the caller may send requests itself: the home runtime is another one, and
    /// runs.
    pub(crate) fn is_in_place(&self) -> bool {
        !self.is_home() && self.leash.has_home()
    }

    /// Returns how long it has had no connection. The client crate retries with backoff for as long
    /// as the session may live.
    pub(crate) fn cut_off_for(&self) -> Duration {
        let since = *self.cut_off.lock().unwrap_or_else(PoisonError::into_inner);
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
    pub(crate) async fn turn(&self) -> Result<Turn<'_>, Said> {
        if self.leash.is_stopped() {
            return Err(Said::ClientClosed);
        }
        // The callers on other runtimes have a limit of their own.
        let room = self.is_home().then_some(&self.room);
        if self.client.state() == SessionState::SyncConnected
            && let Ok(room) = room.map(Semaphore::try_acquire).transpose()
        {
            return Ok(Turn { client: &self.client, _room: room });
        }
        self.within_timeout(async {
            let room = OptionFuture::from(room.map(Semaphore::acquire)).await;
            let room = room.transpose().map_err(|_| Said::ClientClosed)?;
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
            Ok(Turn { client: &self.client, _room: room })
        })
        .await?
    }

    /// Returns whether the caller is on the runtime that the session was opened on.
    pub(crate) fn is_home(&self) -> bool {
        Handle::try_current().is_ok_and(|here| here.id() == self.home.id())
    }

    /// Returns the runtime that the session was opened on.
    pub(crate) fn home(&self) -> &Handle {
        &self.home
    }

    /// Waits for an answer, or returns an error at the time limit. The client crate ends a
    /// connection that receives nothing.
    pub(crate) async fn in_time<T>(&self, answer: impl Future<Output = T>) -> Result<T, Said> {
        let asked = Instant::now();
        let answer = self.within_timeout(answer).await;
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if answer.is_ok() {
            *heard = Instant::now();
        }
        self.is_silent.store(*heard < asked, Ordering::Relaxed);
        answer
    }

    async fn within_timeout<T>(&self, answer: impl Future<Output = T>) -> Result<T, Said> {
        // The caller may have no runtime, or one without a clock.
        let answer = {
            let _entered = self.home.enter();
            timeout(self.settings.timeout, answer)
        };
        answer.await.map_err(|_| Said::Timeout)
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
        let mut signs = self.signs.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(signs.answered(sent, now, older))
    }

    /// Closes the session, and waits until it is closed.
    pub(crate) async fn close(self: Arc<Self>) {
        let mut states = self.client.state_watcher();
        let (mut state, within) = (self.client.state(), self.settings.timeout);
        let _stops = Stops(Arc::downgrade(&self.leash));
        // Other callers of the session get an answer soon, unless their runtimes stand still.
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

/// Opens a new session, logged in if the URL has a user.
async fn log_in(settings: &Settings, ttl: Duration) -> Result<(Result<Client, Said>, Leash)> {
    let (Some(user), Some(password)) = (&settings.login.user, &settings.login.password) else {
        return connect(settings, ttl, None).await;
    };
    let login = format!("{user}:{}", password.reveal());
    // The login travels with the first request. Servers with Netty, which all have for TLS, may
    // answer the login before the first request. The client crate takes that for a broken
    // connection. At last the login goes alone. Servers that accept only clients with a login
    // refuse that (`enforce.auth.enabled`).
    for _ in 0..TOGETHER_MAX {
        let (connected, leash) = connect(settings, ttl, Some(&login)).await?;
        if !matches!(connected, Err(Said::NoHosts)) {
            return Ok((connected, leash));
        }
    }
    let (connected, leash) = connect(settings, ttl, None).await?;
    let known = match connected {
        Ok(client) => client.auth(DIGEST, login.as_bytes()).await.map(|()| client),
        refused => refused,
    };
    Ok((known, leash))
}

async fn connect(
    settings: &Settings,
    ttl: Duration,
    login: Option<&str>,
) -> Result<(Result<Client, Said>, Leash)> {
    let mut connector = Client::connector()
        .with_session_timeout(ttl)
        .with_connection_timeout(settings.timeout)
        .with_fail_eagerly();
    if let Some(login) = login {
        connector = connector.with_auth(DIGEST, login.as_bytes());
    }
    let ensemble = settings.ensemble();
    let (connected, leash) = driven(&Handle::current(), ttl, async {
        match &settings.tls {
            Some(files) => tls::connect(connector, files, &ensemble).await,
            None => Ok(connector.connect(&ensemble).await),
        }
    })
    .await;
    Ok((connected?, leash))
}

/// Stops a session that was to close, if a caller still has it.
struct Stops(Weak<Leash>);

impl Drop for Stops {
    fn drop(&mut self) {
        if let Some(leash) = self.0.upgrade() {
            leash.stop();
        }
    }
}

/// Makes all watches read again when the connection has changed, and when the session is over.
async fn stir(watches: Watches, cut_off: Arc<Mutex<Option<Instant>>>, mut states: StateWatcher) {
    loop {
        let state = states.changed().await;
        let is_cut_off = state == SessionState::Disconnected;
        *cut_off.lock().unwrap_or_else(PoisonError::into_inner) = is_cut_off.then(Instant::now);
        if !is_cut_off {
            watches.stir();
        }
        if state.is_terminated() {
            return;
        }
    }
}
