//! The entry point: all locks of one store.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::background::client::Client;
use crate::layers::{OnRuntime, Retries, Retry};
use crate::lease::figures::{self, Meter};
use crate::{
    BackgroundRuntime, Engine, Guarantee, Guarantees, Key, LeaveMode, LeaveOutcome, LineEntry,
    Owner, Result, Runtime, Share, Ticket, TicketId,
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
/// Spans have the level `DEBUG`. Each request to the store has one. The span `lock` lasts from the
/// call to its answer, and `hold` from then to the end of the guard. `lock` and `hold` have
/// `tenure.key`, `tenure.kind`, `tenure.ticket`, `tenure.token` and `tenure.outcome`.
///
/// With the feature `metrics`, counts and durations go to the recorder of the `metrics` façade.
/// Install the recorder before the first `Locks` are made, so that it gets the descriptions and
/// the gauges count from zero. Metrics marked with * also have the label `group` of
/// [`with_metric_group`](Locks::with_metric_group).
///
/// | name | kind | meaning |
/// |---|---|---|
/// | `tenure_attempts_total{engine,kind,outcome}` * | counter | `held`, `busy`, `timeout`, `cancelled`, `refused`, `unavailable` |
/// | `tenure_waiting{engine,kind}` * | gauge | tickets of this program that wait in a line |
/// | `tenure_held{engine,kind}` * | gauge | locks that this program holds |
/// | `tenure_wait_seconds` * | histogram | from joining the line to holding the lock |
/// | `tenure_hold_seconds` * | histogram | from holding the lock to its release or loss |
/// | `tenure_handovers_total` * | counter | locks that were given to a waiting ticket |
/// | `tenure_wakeups_total{engine,by}` | counter | served waiters, by how they learned it: `push` or `poll`. With a store that pushes, `poll` is rare |
/// | `tenure_losses_total{cause}` * | counter | `expired`, `broken`, `session_gone`, `unreachable`, `held_too_long`, `closed` |
/// | `tenure_renewals_total{outcome}` | counter | `kept`, `lost`, `failed`; late answers count as well |
/// | `tenure_renewal_slack_seconds{engine}` | histogram | what was left of a held lease when its renewal was confirmed |
/// | `tenure_leader{election}` | gauge | 1 while this program leads: see [`Election::metric_name`](crate::Election::metric_name) |
/// | `tenure_leader_token{election}` | gauge | the token of this program's leadership, or 0 |
/// | `tenure_breaks_total{how}` | counter | tickets that this program has broken: `asked`, `forced` |
/// | `tenure_fence_refusals_total` | counter | writes with an old token that a fence has refused |
/// | `tenure_request_seconds{engine,verb,outcome}` | histogram | `ok`, `refused`, `unavailable`; retries are part of a request |
/// | `tenure_store_up{engine,store}` | gauge | 0 after two requests in a row without an answer |
/// | `tenure_sweeper_pending{engine}` | gauge | dropped tickets that wait for their release |
/// | `tenure_profile_info{engine,store,…}` | gauge | the guarantees, as labels |
/// | `tenure_build_info{version}` | gauge | the version of this crate |
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?.with_owner("worker-7")?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let holder = locks.line("invoices/42").await?.remove(0);
/// assert_eq!((&*holder.owner, holder.number), ("worker-7", guard.token().get()));
/// guard.release().await?;
/// locks.close().await;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Locks {
    pub(crate) client: Arc<Client>,
    owner: Owner,
    /// The label `group` of a key.
    group: Option<fn(&Key) -> &'static str>,
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
    /// thread, so renewals continue while the caller's threads are blocked. A request that is not
    /// answered is sent again, up to four times.
    ///
    /// # Errors
    ///
    /// The error of `make`, or no thread could be started.
    pub async fn hosted<E, M>(make: M) -> Result<Self>
    where
        E: Engine,
        M: Future<Output = Result<E>> + Send + 'static,
    {
        let runtime: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
        let engine = OnRuntime::make(runtime.clone(), make).await?;
        Ok(Self::with_retries(engine, runtime, Retries::times(4)))
    }

    /// The locks of this engine, with renewals and releases on this runtime.
    pub fn on(engine: impl Engine, runtime: Arc<dyn Runtime>) -> Self {
        Self::of(Client::new(engine, runtime, Retries::NONE))
    }

    /// As [`on`](Locks::on), for an engine whose answers can be lost: a request that is not
    /// answered is sent again.
    pub fn with_retries(engine: impl Engine, runtime: Arc<dyn Runtime>, retries: Retries) -> Self {
        Self::of(Client::new(Retry::new(engine, runtime.clone(), retries), runtime, retries))
    }

    fn of(client: Arc<Client>) -> Self {
        figures::describe();
        figures::show(&client.guarantees);
        Self { client, owner: Owner::this_process(), group: None }
    }

    /// The same locks, with this owner's name. Others see it in the line.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): the name is too long.
    pub fn with_owner(&self, owner: &str) -> Result<Self> {
        Ok(Self { owner: Owner::new(owner)?, ..self.clone() })
    }

    /// The same locks, whose metrics have the label `group`: this function of the key. Without the
    /// feature `metrics` it has no effect.
    ///
    /// Metrics never have a key as a label, because each label costs the memory of a time series.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let locks = locks.with_metric_group(|key| match key.as_str().split_once('/') {
    ///     Some(("invoices", _)) => "invoices",
    ///     _ => "other",
    /// });
    /// # drop(locks);
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn with_metric_group(&self, group: fn(&Key) -> &'static str) -> Self {
        Self { group: Some(group), ..self.clone() }
    }

    /// The guarantees of this store.
    pub fn guarantees(&self) -> &Guarantees {
        &self.client.guarantees
    }

    /// Checks that the store gives all of these guarantees.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported), with the first that it does not give.
    pub fn require(&self, needs: &[Guarantee]) -> Result<()> {
        self.client.guarantees.require(needs)
    }

    /// The holders and waiters of a key, from the front.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub async fn line(&self, key: impl AsRef<str>) -> Result<Vec<LineEntry>> {
        let line = self.client.open_engine()?.line(&Key::new(key)?).await?;
        Ok(line.into_iter().map(LineEntry::from).collect())
    }

    /// The keys that begin with `prefix` and have a holder or a waiter, in order.
    ///
    /// # Errors
    ///
    /// [`Rejected`](crate::ErrorKind::Rejected): some lines cannot be read, and a lock that is not
    /// listed may be held. [`known_keys`](crate::toolbox::known_keys) returns the keys that are
    /// known. See [`ErrorKind`](crate::ErrorKind) for other errors.
    pub async fn keys(&self, prefix: impl AsRef<str>) -> Result<Vec<Key>> {
        self.client.open_engine()?.keys(prefix.as_ref()).await
    }

    /// Breaks a ticket. A waiter leaves the line at once. A holder is asked to leave: the next
    /// waiter is served when the holder has stopped, at the latest when its lease expires. A break
    /// alone makes no second holder. A holder that does not check its lock may work on after its
    /// lease, as without a break.
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
        self.client.releaser.flush().await;
    }

    /// Closes these locks and their clones. Call it before the program ends. A guard or waiter that
    /// is dropped just before the end of `main` is released in the background. If the process ends
    /// sooner, its ticket stays until the ttl is over.
    ///
    /// 1. Every held lock is lost with [`Loss::Closed`](crate::Loss::Closed), and every waiter is
    ///    refused. [`MutexGuard::run`](crate::MutexGuard::run) stops its work.
    /// 2. Dropped guards are released. If the program still has a guard, this step ends after
    ///    [`Guarantees::answers_within`].
    /// 3. The connection is closed. With etcd and ZooKeeper the session ends here, and the next
    ///    waiter of each lock is served.
    ///
    /// If the store does not answer, this returns when the ttls of the dropped tickets are over.
    /// With etcd, ZooKeeper and files it returns after twice [`Guarantees::answers_within`].
    ///
    /// Release all guards first. Every later request is refused with
    /// [`Reason::Closed`](crate::Reason::Closed).
    pub async fn close(&self) {
        self.client.close().await;
    }

    async fn take_out(&self, key: &str, id: TicketId, how: LeaveMode) -> Result<LeaveOutcome> {
        let ticket = Ticket { id, ..self.ticket(Key::new(key)?) };
        let left = self.client.open_engine()?.leave(&ticket, how).await;
        if !matches!(left, Ok(LeaveOutcome::Absent) | Err(_)) {
            figures::broken(how);
        }
        left
    }

    /// The name of the owner, which others see in the line.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The labels of this key's metrics.
    pub(crate) fn meter(&self, key: &Key) -> Meter {
        let group = self.group.map(|group| group(key));
        Meter { engine: self.client.guarantees.name, group, election: None }
    }

    /// A ticket of this owner, with default options.
    pub(crate) fn ticket(&self, key: Key) -> Ticket {
        Ticket { owner: self.owner.clone(), ..Ticket::new(key, Share::WHOLE) }
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("engine", &self.client.guarantees.name)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
