//! A link to one server: a connection that is made anew whenever it is lost.
//!
//! One attempt to connect serves all who ask for the connection meanwhile, and all links of one client share the
//! pauses after failures. What an engine knows of its server is a [`Server`]; the rest is here.

use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::connect_policy::{Attempt, BackedOff, ConnectPolicy};
use crate::in_flight::InFlight;
use crate::server::{ConnectContext, LinkOwner, Origin, Server};

/// How long anybody waits for a server whose last attempt failed.
const BRIEF: Duration = Duration::from_millis(100);

const RUNTIME_ENDED: &str = "the runtime that speaks to the server has ended";

/// One client of one server: what all of its links have in common.
pub struct Client<S> {
    server: S,
    attempts: Arc<ConnectPolicy>,
    /// How often the server was replaced by another one.
    generation: AtomicU64,
    /// It was reached once.
    is_met: AtomicBool,
}

/// One connection at a time.
pub struct Link<S: Server> {
    client: Arc<Client<S>>,
    this: Weak<Self>,
    side: Origin,
    connection: Mutex<Option<Arc<Connection<S::Open>>>>,
    /// The generation of the connection that was tried last.
    opened: AtomicU64,
    /// The generation of the last connection that is known to have ended.
    ended: AtomicU64,
    /// What will come of the attempt that is under way.
    attempt: Mutex<Option<Outcome<S::Open>>>,
    home: Handle,
    /// Notified when the connection was found to be lost, and when the link is dropped.
    lost: Arc<Notify>,
    is_barred: AtomicBool,
}

/// What came of an attempt, for all who wait for it.
type Outcome<O> = watch::Receiver<Option<Result<Arc<Connection<O>>>>>;

/// What is open now, as far as is known.
pub struct Connection<O> {
    open: O,
    pub(crate) calls: InFlight,
    generation: u64,
    /// The generation of the client in which it was opened.
    of_client: u64,
}

impl<S: Server> Client<S> {
    /// A client of this server.
    pub fn new(server: S) -> Arc<Self> {
        let (attempts, generation) = (Arc::default(), AtomicU64::new(0));
        Arc::new(Self { server, attempts, generation, is_met: AtomicBool::new(false) })
    }

    /// The server.
    pub fn server(&self) -> &S {
        &self.server
    }
}

impl<S: Server> Link<S> {
    /// A link that connects when the first call is made. It lives on the runtime of whoever calls this.
    pub fn on_demand(client: Arc<Client<S>>) -> Arc<Self> {
        Self::unconnected(client, Origin::Caller)
    }

    /// A link that stays connected by itself. It lives on the runtime of whoever calls this.
    pub fn kept(client: Arc<Client<S>>) -> Arc<Self> {
        let link = Self::unconnected(client, Origin::Home);
        link.lost.notify_one();
        link.home.spawn(stay_connected(Arc::downgrade(&link), link.lost.clone()));
        link
    }

    fn unconnected(client: Arc<Client<S>>, side: Origin) -> Arc<Self> {
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
        })
    }

    /// The client that this is a link of.
    pub fn client(&self) -> &Arc<Client<S>> {
        &self.client
    }

    /// The server that this leads to.
    pub fn server(&self) -> &S {
        &self.client.server
    }

    /// Whose runtime this lives on.
    pub fn side(&self) -> Origin {
        self.side
    }

    /// The runtime that this lives on.
    pub fn home(&self) -> &Handle {
        &self.home
    }

    /// This link, to be kept.
    pub fn this(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    /// The connection; if there is none, one attempt is made for all who ask. Nobody waits long for a server whose
    /// last attempt failed.
    pub async fn connection(&self) -> Result<Arc<Connection<S::Open>>> {
        let attempts = &self.client.attempts;
        loop {
            if let Some(connection) = self.current() {
                return Ok(connection);
            }
            let trouble = attempts.trouble();
            let outcome = match self.outcome() {
                Ok(mut outcome) => {
                    let come = async move {
                        let come = outcome.wait_for(Option::is_some).await;
                        come.map_or_else(|_| None, |outcome| outcome.clone())
                    };
                    match &trouble {
                        None => come.await,
                        Some(trouble) => {
                            self.briefly(come).await.unwrap_or_else(|| Some(Err(trouble.clone())))
                        }
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

    /// What comes of this in a moment. Whoever calls may have no runtime, or one without a clock.
    async fn briefly<T>(&self, come: impl Future<Output = T>) -> Option<T> {
        let come = {
            let _at_home = self.home.enter();
            timeout(BRIEF, come)
        };
        come.await.ok()
    }

    /// The connection, if there is one and it leads where it should.
    pub fn current(&self) -> Option<Arc<Connection<S::Open>>> {
        let of_client = self.client.generation.load(Ordering::Acquire);
        self.slot().clone().filter(|connection| connection.of_client == of_client)
    }

    /// The connection is of no more use. Answers whether it was in use until now.
    pub fn give_up(&self, generation: u64) -> bool {
        self.ended.fetch_max(generation, Ordering::AcqRel);
        let given_up = self.slot().take_if(|connection| connection.generation == generation);
        if let Some(connection) = &given_up {
            connection.calls.close();
            self.lost.notify_one();
        }
        given_up.is_some()
    }

    /// The same for a connection whose server does not answer: the next one may not, either.
    pub(crate) fn give_up_silent(&self, generation: u64) {
        if self.give_up(generation) {
            self.client.attempts.fail(&self.server().silence());
        }
    }

    /// Another server has taken the place of the one that this connection leads to: no link of this client uses
    /// the connections that it has.
    pub fn was_replaced(&self, generation: u64) {
        self.client.generation.fetch_add(1, Ordering::AcqRel);
        self.give_up(generation);
    }

    /// Whether its runtime has no drivers for sockets or for time, which it says by a panic.
    pub fn is_barred(&self) -> bool {
        self.is_barred.load(Ordering::Relaxed)
    }

    /// The attempt that is under way, or a new one, which goes on to its end even if nobody waits for it any more.
    fn outcome(&self) -> Result<Outcome<S::Open>, BackedOff> {
        let mut under_way = lock(&self.attempt);
        if let Some(outcome) = under_way.as_ref().filter(|outcome| outcome.has_changed().is_ok()) {
            return Ok(outcome.clone());
        }
        let (attempt, turn) = self.client.attempts.ask(self.side)?;
        let (tell, outcome) = watch::channel(None);
        *under_way = Some(outcome.clone());
        if let Some(link) = self.this() {
            self.home.spawn(async move {
                let come = AssertUnwindSafe(link.attempt_in(turn, attempt)).catch_unwind().await;
                let come = come.unwrap_or_else(|_| {
                    link.is_barred.store(true, Ordering::Relaxed);
                    Err(runtime_ended())
                });
                *lock(&link.attempt) = None;
                tell.send_replace(Some(come));
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
        // It may have ended before it was put there.
        if self.ended.load(Ordering::Acquire) >= generation {
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
    /// Which connection of its link this is; each has a larger number than those before.
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

/// What is said of a server that was reached before: settings that were good once may be good again in a moment, because files
/// that they name are being replaced.
pub fn as_transient(error: Error) -> Error {
    if error.kind() == ErrorKind::Invalid { error.into_retryable() } else { error }
}

/// Makes the connection anew whenever it is lost, for as long as the link is wanted.
async fn stay_connected<S: Server>(link: Weak<Link<S>>, lost: Arc<Notify>) {
    loop {
        lost.notified().await;
        while let Some(link) = link.upgrade() {
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

fn runtime_ended() -> Error {
    Error::unavailable(RUNTIME_ENDED)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
