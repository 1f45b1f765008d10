//! A link to one server: a connection that is opened again whenever it is lost.
//!
//! All callers that need the connection share one attempt to open it. All links of one client share
//! the pauses after failures. The engine supplies a [`Server`], which opens the connections.

use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_core::sync::Mutex;
use tenure_core::{Error, ErrorKind, Reason, Result};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::connect_policy::{Attempt, BackedOff, ConnectPolicy};
use crate::in_flight::InFlight;
use crate::server::{ConnectContext, LinkOwner, Origin, Server};

/// How long a caller waits for a connection after the last attempt failed.
const BRIEF: Duration = Duration::from_millis(100);

const RUNTIME_ENDED: &str =
    "the connection to the server is gone, because the runtime that drives it has shut down";

const PANICKED: &str =
    "the driver panicked while it connected to the server: see the panic on standard error";

/// A client of one server: the state that all of its links share.
pub struct ServerClient<S> {
    server: S,
    attempts: Arc<ConnectPolicy>,
    /// Number of times that the server was replaced by another one.
    generation: AtomicU64,
    /// Whether a connection was ever open.
    is_met: AtomicBool,
}

/// A link to one server, with one connection at a time.
pub struct Link<S: Server> {
    client: Arc<ServerClient<S>>,
    this: Weak<Self>,
    side: Origin,
    connection: Mutex<Option<Arc<Connection<S::Open>>>>,
    /// The generation of the connection that was tried last.
    opened: AtomicU64,
    /// The largest generation of a connection that is known to have ended.
    ended: AtomicU64,
    /// The outcome of the attempt that is under way.
    attempt: Mutex<Option<Outcome<S::Open>>>,
    home: Handle,
    /// Notified when the connection is given up, and when the link is dropped.
    lost: Arc<Notify>,
    is_barred: AtomicBool,
    is_closed: watch::Sender<bool>,
}

/// The outcome of an attempt, for all callers that wait for it.
type Outcome<O> = watch::Receiver<Option<Result<Arc<Connection<O>>>>>;

/// An open connection, as far as is known. Dereferences to [`Server::Open`].
pub struct Connection<O> {
    open: O,
    pub(crate) calls: InFlight,
    generation: u64,
    /// The generation of the client when the connection was opened.
    of_client: u64,
}

impl<S: Server> ServerClient<S> {
    /// Returns a client of this server.
    pub fn new(server: S) -> Arc<Self> {
        let (attempts, generation) = (Arc::default(), AtomicU64::new(0));
        Arc::new(Self { server, attempts, generation, is_met: AtomicBool::new(false) })
    }

    /// Returns the server.
    pub fn server(&self) -> &S {
        &self.server
    }
}

impl<S: Server> Link<S> {
    /// Returns a link on the current runtime that connects on the first call.
    ///
    /// # Panics
    ///
    /// Panics without a runtime.
    pub fn on_demand(client: Arc<ServerClient<S>>) -> Arc<Self> {
        Self::unconnected(client, Origin::Caller)
    }

    /// Returns a link on the current runtime that stays connected by itself.
    ///
    /// # Panics
    ///
    /// Panics without a runtime.
    pub fn kept(client: Arc<ServerClient<S>>) -> Arc<Self> {
        let link = Self::unconnected(client, Origin::Home);
        link.lost.notify_one();
        link.home.spawn(stay_connected(Arc::downgrade(&link), link.lost.clone()));
        link
    }

    fn unconnected(client: Arc<ServerClient<S>>, side: Origin) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            client,
            this: this.clone(),
            side,
            connection: Mutex::default(),
            opened: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            attempt: Mutex::default(),
            home: Handle::current(),
            lost: Arc::default(),
            is_barred: AtomicBool::new(false),
            is_closed: watch::Sender::new(false),
        })
    }

    /// Returns the client of this link.
    pub fn client(&self) -> &Arc<ServerClient<S>> {
        &self.client
    }

    /// Returns the server of this link.
    pub fn server(&self) -> &S {
        &self.client.server
    }

    /// Returns whether the link is on the engine's own runtime or on a caller's.
    pub fn side(&self) -> Origin {
        self.side
    }

    /// Returns the runtime of this link.
    pub fn home(&self) -> &Handle {
        &self.home
    }

    /// Returns an owned reference to this link, or `None` while it is being dropped.
    pub fn this(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    /// Returns the connection, and opens it if there is none. All callers share one attempt. After
    /// a failed attempt a caller waits for 100 ms at most.
    ///
    /// # Errors
    ///
    /// The reason of the last failure; an error that [is retryable](Error::is_retryable) if the
    /// runtime of the link has shut down; [`Reason::Closed`] if the link is closed.
    pub async fn connection(&self) -> Result<Arc<Connection<S::Open>>> {
        let attempts = &self.client.attempts;
        loop {
            if self.is_closed() {
                return Err(closed());
            }
            if let Some(connection) = self.current() {
                return Ok(connection);
            }
            let trouble = attempts.trouble();
            let outcome = match self.outcome() {
                Ok(mut outcome) => {
                    let outcome = async move {
                        let outcome = outcome.wait_for(Option::is_some).await;
                        outcome.map_or_else(|_| None, |outcome| outcome.clone())
                    };
                    match &trouble {
                        None => outcome.await,
                        Some(trouble) => self
                            .briefly(outcome)
                            .await
                            .unwrap_or_else(|| Some(Err(trouble.clone()))),
                    }
                }
                Err(BackedOff::Tried(trouble)) => match self.briefly(attempts.tried()).await {
                    Some(()) => continue,
                    None => Some(Err(trouble)),
                },
                Err(BackedOff::Paused(trouble)) => Some(Err(trouble)),
            };
            return outcome.unwrap_or_else(|| Err(runtime_ended()));
        }
    }

    /// Waits for `future` for [`BRIEF`]. The caller may have no runtime, or one without a timer.
    async fn briefly<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let limited = {
            let _entered = self.home.enter();
            timeout(BRIEF, future)
        };
        limited.await.ok()
    }

    /// Returns the connection if it is open and its server was not replaced since.
    pub fn current(&self) -> Option<Arc<Connection<S::Open>>> {
        let of_client = self.client.generation.load(Ordering::Acquire);
        self.slot().clone().filter(|connection| connection.of_client == of_client)
    }

    /// Gives up the connection of this generation. Returns whether it was in use until now.
    pub fn give_up(&self, generation: u64) -> bool {
        self.ended.fetch_max(generation, Ordering::AcqRel);
        let given_up = self.slot().take_if(|connection| connection.generation == generation);
        if let Some(connection) = &given_up {
            connection.calls.close();
            self.lost.notify_one();
        }
        given_up.is_some()
    }

    /// Gives up a connection whose server does not answer. This counts as an attempt that failed
    /// for this reason, because the next connection may be silent as well. Returns whether the
    /// connection was in use until now.
    pub fn give_up_silent(&self, generation: u64, reason: &Error) -> bool {
        let was_in_use = self.give_up(generation);
        if was_in_use {
            self.client.attempts.fail(reason);
        }
        was_in_use
    }

    /// As [`give_up_silent`](Self::give_up_silent), for a connection over which the server has
    /// answered no call. The pause before the next one is longer than the pause before this one.
    pub fn give_up_mute(&self, generation: u64, reason: &Error) -> bool {
        let was_in_use = self.give_up(generation);
        if was_in_use {
            self.client.attempts.fail_again(reason);
        }
        was_in_use
    }

    /// Gives up the connection, and opens no other one.
    pub fn close(&self) {
        self.is_closed.send_replace(true);
        if let Some(connection) = self.current() {
            self.give_up(connection.generation);
        }
    }

    /// Waits until the link is closed or dropped. The future does not keep the link.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + use<S> {
        let mut is_closed = self.is_closed.subscribe();
        async move {
            // An error means that the link was dropped.
            let _ = is_closed.wait_for(|is_closed| *is_closed).await;
        }
    }

    fn is_closed(&self) -> bool {
        *self.is_closed.borrow()
    }

    /// Notes that another server has replaced the server of this connection. All links of the
    /// client give up their connections.
    pub fn was_replaced(&self, generation: u64) {
        self.client.generation.fetch_add(1, Ordering::AcqRel);
        self.give_up(generation);
    }

    /// Whether an attempt panicked, as it does on a runtime without drivers for sockets and time.
    pub fn is_barred(&self) -> bool {
        self.is_barred.load(Ordering::Relaxed)
    }

    /// Returns the attempt that is under way, or starts one. It runs to its end without callers.
    fn outcome(&self) -> Result<Outcome<S::Open>, BackedOff> {
        let mut under_way = lock(&self.attempt);
        if let Some(outcome) = under_way.as_ref().filter(|outcome| outcome.has_changed().is_ok()) {
            return Ok(outcome.clone());
        }
        let (attempt, turn) = self.client.attempts.ask(self.side)?;
        let (sender, outcome) = watch::channel(None);
        *under_way = Some(outcome.clone());
        if let Some(link) = self.this() {
            self.home.spawn(async move {
                let result = AssertUnwindSafe(link.attempt_in(turn, attempt)).catch_unwind().await;
                let result = result.unwrap_or_else(|_| {
                    link.is_barred.store(true, Ordering::Relaxed);
                    Err(Error::unavailable(PANICKED))
                });
                *lock(&link.attempt) = None;
                sender.send_replace(Some(result));
            });
        }
        Ok(outcome)
    }

    async fn attempt_in(
        &self,
        turn: Duration,
        attempt: Attempt,
    ) -> Result<Arc<Connection<S::Open>>> {
        if !turn.is_zero() {
            tokio::time::sleep(turn).await;
        }
        let of_client = self.client.generation.load(Ordering::Acquire);
        let this: Weak<dyn LinkOwner> = self.this.clone();
        let opening = ConnectContext::new(this, self.side);
        let open = match self.server().open(&opening).await {
            Ok(open) => open,
            Err(error) => {
                let is_met = self.client.is_met.load(Ordering::Relaxed);
                let error = if is_met { as_transient(error) } else { error };
                attempt.failed(&error);
                return Err(error);
            }
        };
        attempt.succeeded();
        self.client.is_met.store(true, Ordering::Relaxed);
        let generation = opening.generation();
        let connection = Connection { open, calls: InFlight::new(), generation, of_client };
        let connection = Arc::new(connection);
        *self.slot() = Some(connection.clone());
        // The connection may have ended, or the link was closed, before it was in the slot.
        if self.ended.load(Ordering::Acquire) >= generation || self.is_closed() {
            self.give_up(generation);
        }
        Ok(connection)
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<Connection<S::Open>>>> {
        lock(&self.connection)
    }
}

impl<S: Server> LinkOwner for Link<S> {
    fn next_generation(&self) -> u64 {
        self.opened.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn lose(&self, generation: u64) {
        self.give_up(generation);
    }
}

impl<S: Server> Drop for Link<S> {
    fn drop(&mut self) {
        self.lost.notify_one();
    }
}

impl<O> Connection<O> {
    /// Returns the number of this connection of its link. Later connections have larger numbers.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl<O> Deref for Connection<O> {
    type Target = O;

    fn deref(&self) -> &O {
        &self.open
    }
}

/// Turns `Invalid` into `Unavailable` for a server that was reachable before: a certificate file
/// may be in the middle of being replaced.
pub fn as_transient(error: Error) -> Error {
    if error.kind() == ErrorKind::Invalid { error.into_retryable() } else { error }
}

/// Opens the connection again whenever it is lost, until the link is dropped.
async fn stay_connected<S: Server>(link: Weak<Link<S>>, lost: Arc<Notify>) {
    loop {
        lost.notified().await;
        while let Some(link) = link.upgrade() {
            if link.is_closed() {
                return;
            }
            match link.connection().await {
                Ok(_) => break,
                Err(error) => tracing::trace!(%error, "the server cannot be reached, trying again"),
            }
            let pause = link.client.attempts.pause();
            drop(link);
            tokio::time::sleep(pause).await;
        }
        if link.strong_count() == 0 {
            return;
        }
    }
}

fn closed() -> Error {
    Error::invalid("the client is closed").with_reason(Reason::Closed)
}

fn runtime_ended() -> Error {
    Error::unavailable(RUNTIME_ENDED)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
