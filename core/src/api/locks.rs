//! The entry point: all locks of one store.

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

/// All locks of one store. Clones share the connection and the background tasks.
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
/// Each request to the store has a span at the level `DEBUG`. With the feature `metrics`, counts
/// and durations go to the recorder of the `metrics` façade. Install the recorder before the first
/// `Locks` are made, so that it gets the descriptions.
///
/// | name | kind | meaning |
/// |---|---|---|
/// | `tenure_wait_seconds` | histogram | from joining the line to holding the lock |
/// | `tenure_hold_seconds` | histogram | from holding the lock to its release or loss |
/// | `tenure_renewals_total{outcome}` | counter | `kept`, `lost`, `failed`; late answers count as well |
/// | `tenure_losses_total{cause}` | counter | `expired`, `broken`, `session_gone`, `unreachable`, `held_too_long`, `closed` |
/// | `tenure_handovers_total` | counter | locks that were given to a waiting ticket |
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

/// The number of tickets that join, wait or hold. A ticket counts until it begins to leave.
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

    /// Waits until the number is zero.
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
    /// The locks of this engine, called on the caller's thread.
    ///
    /// An engine whose operations are not [`quick`](Guarantees::quick) should run on a thread of
    /// its own: see [`hosted`](Locks::hosted).
    pub fn new(engine: impl Engine) -> Self {
        Self::on(engine, Arc::new(BackgroundRuntime::for_timers()))
    }

    /// The locks of an engine that uses sockets. The engine is made and called on a background
    /// thread, so renewals continue while the caller's threads are blocked.
    ///
    /// # Errors
    ///
    /// The error of `make`, or no thread could be started.
    pub async fn hosted<E, M>(make: M) -> Result<Self>
    where
        E: Engine,
        M: Future<Output = Result<E>> + Send + 'static,
    {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
        let engine = OnRuntime::make(host.clone(), make).await?;
        Ok(Self::on(engine, host))
    }

    /// The locks of this engine, with renewals and releases on this runtime.
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

    /// The same locks, with this owner's name. Others see it in the line.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): the name is too long.
    pub fn with_owner(&self, owner: &str) -> Result<Self> {
        Ok(Self { inner: self.inner.clone(), owner: Owner::new(owner)? })
    }

    /// The guarantees of this store.
    pub fn guarantees(&self) -> &Guarantees {
        &self.inner.profile
    }

    /// Checks that the store gives all of these guarantees.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported), with those that it does not give.
    pub fn require(&self, needs: &[Guarantee]) -> Result<()> {
        self.inner.profile.require(needs)
    }

    /// The tickets in the line of a key, from the front.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub async fn line(&self, key: impl AsRef<str>) -> Result<Vec<(Ticket, Place)>> {
        self.inner.engine.line(&Key::new(key)?).await
    }

    /// The keys that begin with `prefix` and have a holder or a waiter, in order.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub async fn keys(&self, prefix: impl AsRef<str>) -> Result<Vec<Key>> {
        self.inner.engine.keys(prefix.as_ref()).await
    }

    /// Breaks a ticket. A waiter leaves the line at once. A holder is asked to leave: the next
    /// waiter is served when the holder has stopped, at the latest when its lease expires. A break
    /// therefore never makes two holders.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub async fn break_ticket(&self, key: impl AsRef<str>, id: TicketId) -> Result<LeaveOutcome> {
        self.take_out(key.as_ref(), id, LeaveMode::Graceful).await
    }

    /// Removes a ticket at once, without waiting for its holder.
    ///
    /// **If the holder still works, there are two holders.** Use it if the holder is known to be
    /// gone, or if the resource refuses old tokens.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub async fn force_unlock(&self, key: impl AsRef<str>, id: TicketId) -> Result<LeaveOutcome> {
        self.take_out(key.as_ref(), id, LeaveMode::Now).await
    }

    /// Waits until the tickets of all dropped guards and waiters have left their lines. With etcd
    /// and ZooKeeper it waits as long as the store is unreachable: put a timeout around it.
    pub async fn flush(&self) {
        self.inner.sweeper.flush().await;
    }

    /// Closes these locks and their clones. Call it before the program ends. A guard or waiter that
    /// is dropped just before the end of `main` is released in the background. If the process ends
    /// sooner, its ticket stays until the ttl is over.
    ///
    /// 1. Every held lock is lost with [`Loss::Closed`](crate::Loss::Closed), and every waiter is
    ///    refused. [`Guard::run`](crate::LeaseHandle::run) stops its work.
    /// 2. Dropped guards are released. This takes at most [`Guarantees::answers_within`] if the
    ///    program keeps a guard.
    /// 3. The connection is closed. With etcd and ZooKeeper the session ends here, and the next
    ///    waiter of each lock is served.
    ///
    /// If the store does not answer, this returns when the ttls of the dropped tickets are over.
    /// With etcd and ZooKeeper it returns after twice [`Guarantees::answers_within`].
    ///
    /// Release all guards first. A later lock is refused at once with
    /// [`Reason::Closed`](crate::Reason::Closed); other requests may be
    /// [`Unavailable`](crate::ErrorKind::Unavailable).
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
        // A guard that the program keeps is lost, and does not delay the end further.
        let _ = select(pin!(given_back), host.sleep(profile.answers_within)).await;
        if profile.liveness == Liveness::Session {
            // Without an answer, the store ends the session when its ttl is over.
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

    /// A ticket of this owner, with default options.
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
