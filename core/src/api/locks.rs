//! One store, and all the locks in it.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::select;
use tokio::sync::Notify;

use crate::background::admission::Admission;
use crate::background::releaser::Releaser;
use crate::background::renewer::Renewer;
use crate::layers::{AnyEngine, Monitor, OnRuntime};
use crate::telemetry;
use crate::wake::wake_all;
use crate::{
    BackgroundRuntime, Engine, Guarantee, Guarantees, Key, LeaveMode, LeaveOutcome, Liveness,
    Owner, Place, Result, Runtime, Share, Ticket, TicketId,
};

/// The locks of one store. Clones share everything.
///
/// # Logs and metrics
///
/// Events go to `tracing`:
///
/// | level | event |
/// |---|---|
/// | `WARN` | a lock was lost: `key`, `id`, `token`, `reason`, `held_for` |
/// | `WARN` | the store is unreachable: two requests in a row were not answered |
/// | `INFO` | the store is back: `after` |
///
/// Each request to the store has a span at the level `DEBUG`. With the feature `metrics`, counts and
/// durations go to the recorder of the `metrics` façade. Install the recorder before the first
/// `Locks` are made, so that it hears the descriptions.
///
/// | name | kind | meaning |
/// |---|---|---|
/// | `tenure_wait_seconds` | histogram | from joining the line to holding the lock |
/// | `tenure_hold_seconds` | histogram | from holding the lock to its release or loss |
/// | `tenure_renewals_total{outcome}` | counter | `kept`, `lost`, `failed`; an answer that comes late counts as well |
/// | `tenure_losses_total{cause}` | counter | `expired`, `broken`, `session_gone`, `unreachable`, `held_too_long`, `closed` |
/// | `tenure_handovers_total` | counter | locks that were handed to a ticket which waited |
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?.with_owner("worker-7")?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let (ticket, place) = locks.line("invoices/42").await?.remove(0);
/// assert_eq!((&*ticket.owner, place.number), ("worker-7", guard.token()));
/// guard.release().await?;
/// locks.close().await;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Locks {
    pub(crate) inner: Arc<Inner>,
    owner: Owner,
}

pub(crate) struct Inner {
    pub(crate) engine: AnyEngine,
    pub(crate) host: Arc<dyn Runtime>,
    pub(crate) keeper: Arc<Renewer>,
    pub(crate) sweeper: Arc<Releaser>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) profile: Guarantees,
    pub(crate) entries: Entries,
}

/// Number of tickets that are under way, wait or are held, each until it begins to leave.
#[derive(Default)]
pub(crate) struct Entries {
    count: AtomicUsize,
    none: Notify,
}

impl Entries {
    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn remove(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            wake_all(&self.none);
        }
    }

    /// Returns once there are none.
    async fn none(&self) {
        loop {
            let mut none = pin!(self.none.notified());
            none.as_mut().enable();
            if self.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            none.await;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.keeper.close();
    }
}

impl Locks {
    /// The locks that this engine keeps.
    ///
    /// An engine whose verbs are [`quick`](Guarantees::quick) is called in place. Any other should be made on
    /// the thread it is to live on: see [`hosted`](Locks::hosted).
    pub fn new(engine: impl Engine) -> Self {
        Self::on(engine, Arc::new(BackgroundRuntime::for_timers()))
    }

    /// The locks of an engine that drives sockets: it is made and called on a private thread, so
    /// that its renewals go on whatever the caller's own threads do.
    pub async fn hosted<E, M>(make: M) -> Result<Self>
    where
        E: Engine,
        M: Future<Output = Result<E>> + Send + 'static,
    {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
        let engine = OnRuntime::make(host.clone(), make).await?;
        Ok(Self::on(engine, host))
    }

    /// The locks that this engine keeps, with their keeper and sweeper on this host.
    pub fn on(engine: impl Engine, host: Arc<dyn Runtime>) -> Self {
        telemetry::describe();
        let engine = AnyEngine::new(Monitor::new(engine, host.clone()));
        let profile = engine.guarantees();
        let keeper = Renewer::new(engine.clone(), host.clone());
        let sweeper = Releaser::new(engine.clone(), host.clone());
        let (admission, entries) = (Admission::new(host.clone()), Entries::default());
        let inner = Arc::new(Inner { engine, host, keeper, sweeper, admission, profile, entries });
        Self { inner, owner: Owner::this_process() }
    }

    /// The same locks, with a keeper and a sweeper of their own on this host. The engine stays where it was made.
    #[must_use]
    pub fn kept_on(&self, host: Arc<dyn Runtime>) -> Self {
        Self { owner: self.owner.clone(), ..Self::on(self.inner.engine.clone(), host) }
    }

    /// The same locks, for an owner of this name: what others see in the line.
    pub fn with_owner(&self, owner: &str) -> Result<Self> {
        Ok(Self { inner: self.inner.clone(), owner: Owner::new(owner)? })
    }

    /// What this store promises.
    pub fn guarantees(&self) -> &Guarantees {
        &self.inner.profile
    }

    /// Refuses a store that does not promise all of this.
    pub fn require(&self, needs: &[Guarantee]) -> Result<()> {
        self.inner.profile.require(needs)
    }

    /// The tickets in the line of a key, from the front.
    pub async fn line(&self, key: impl AsRef<str>) -> Result<Vec<(Ticket, Place)>> {
        self.inner.engine.line(&Key::new(key)?).await
    }

    /// The keys that begin with `prefix` and have a holder or a waiter, in order.
    pub async fn keys(&self, prefix: impl AsRef<str>) -> Result<Vec<Key>> {
        self.inner.engine.keys(prefix.as_ref()).await
    }

    /// Breaks somebody's ticket: a waiter is out at once; a holder is told, and is out when it has
    /// stopped, at the latest when its life ends. So a break never makes two holders.
    pub async fn break_ticket(&self, key: impl AsRef<str>, id: TicketId) -> Result<LeaveOutcome> {
        self.take_out(key.as_ref(), id, LeaveMode::Graceful).await
    }

    /// Takes out somebody's ticket at once, whatever its owner does.
    ///
    /// **If the owner still works, there are two holders.** For an owner who is known to be gone or stuck,
    /// and work that refuses old tokens.
    pub async fn force_unlock(&self, key: impl AsRef<str>, id: TicketId) -> Result<LeaveOutcome> {
        self.take_out(key.as_ref(), id, LeaveMode::Now).await
    }

    /// Returns once everything that was dropped has been given back to the store, as far as it could be. While a store is away whose
    /// tickets live by a session, this waits for it: put a time-out around it.
    pub async fn flush(&self) {
        self.inner.sweeper.flush().await;
    }

    /// Ends all use of these locks and of their clones, and lets go of the store. Call it before a
    /// program ends: a guard that is dropped on the way out of `main` is given back in the background,
    /// and the process may end sooner, so that its lock stays until its ttl is over.
    ///
    /// 1. Every lock that is still held is lost, with [`Loss::Closed`](crate::Loss::Closed), and every
    ///    waiter is refused. [`Guard::run`](crate::LeaseHandle::run) stops its work.
    /// 2. Guards that are dropped now are given back in order. This takes at most the time of one
    ///    answer, [`Guarantees::answers_within`], where a guard is kept.
    /// 3. The connection is closed. Where tickets live by a session, it ends here, and the next waiter
    ///    of each lock is served.
    ///
    /// A store that does not answer is not waited for longer than the ttls of what was dropped; or,
    /// where that lives by a session, for twice the time of one answer.
    ///
    /// Release all guards first. A lock that is asked for later is refused at once; other requests
    /// may be [`Unavailable`](crate::ErrorKind::Unavailable).
    pub async fn close(&self) {
        let Inner { engine, host, keeper, sweeper, profile, entries, .. } = &*self.inner;
        keeper.end();
        if host.ready().is_err() {
            // No thread has ever run here, so no lock was taken and no timer can run.
            return engine.close().await;
        }
        let given_back = async {
            entries.none().await;
            sweeper.flush().await;
        };
        // A guard that is kept must not keep the store: it is lost, and says so.
        let _ = select(pin!(given_back), host.sleep(profile.answers_within)).await;
        if profile.liveness == Liveness::Session {
            // A store that does not answer ends the session by itself.
            let _ = select(pin!(engine.close()), host.sleep(profile.answers_within)).await;
            sweeper.leave_the_rest();
        } else {
            sweeper.flush().await;
            engine.close().await;
        }
    }

    async fn take_out(&self, key: &str, id: TicketId, how: LeaveMode) -> Result<LeaveOutcome> {
        let ticket = Ticket { id, ..self.ticket(Key::new(key)?) };
        self.inner.engine.leave(&ticket, how).await
    }

    /// A ticket of this owner, with everything else at its default.
    pub(crate) fn ticket(&self, key: Key) -> Ticket {
        Ticket { owner: self.owner.clone(), ..Ticket::new(key, Share::WHOLE) }
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("engine", &self.inner.profile.name)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
