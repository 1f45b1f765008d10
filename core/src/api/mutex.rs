//! A mutex: it takes the whole line, so it is the writer of its key.

use std::time::Duration;

use crate::api::claim::{Claim, lease_options};
use crate::{LeaseHandle, LineEntry, Locks, MutexGuard, Result, Share, TicketState, Token};

/// A lock with at most one holder at a time. Made by [`Locks::mutex`].
///
/// `locks.mutex(k)` and `locks.rwlock(k).write()` are the same lock.
///
/// ```
/// use std::time::Duration;
///
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let mutex = locks.mutex("invoices/42").ttl(Duration::from_secs(10)).note("month's end");
/// let guard = mutex.lock().await?;
/// assert!(mutex.try_lock().await?.is_none(), "busy is not an error");
/// guard.release().await?;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a mutex locks nothing until it is asked to"]
pub struct Mutex {
    claim: Claim,
}

impl Locks {
    /// The mutex of this key. It sends no request.
    pub fn mutex(&self, key: impl AsRef<str>) -> Mutex {
        Mutex { claim: Claim::new(self, key) }
    }
}

impl Mutex {
    lease_options!();

    /// The mutex of this claim.
    pub(crate) fn of(claim: Claim) -> Self {
        Self { claim }
    }

    /// Waits for the lock. Waiters are served in the order in which they came, if the store
    /// promises that.
    ///
    /// With etcd and ZooKeeper, callers of one client may give up faster than the store can remove
    /// their tickets. Further callers of that client then join later, in random order.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind). [`Lost`](crate::ErrorKind::Lost): an operator broke the
    /// waiting ticket.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes the ticket from the line, so any timeout works.
    pub fn lock(&self) -> impl Future<Output = Result<MutexGuard>> + Send + use<> {
        let locked = self.claim.wait(Share::WHOLE);
        async move { locked.await.map(MutexGuard) }
    }

    /// Locks, does the work, and releases.
    ///
    /// The work gets the fencing [`Token`] and a handle of the lease. It is dropped when the lock
    /// is lost: see [`LeaseHandle::run`]. If the store does not confirm the release, it is tried
    /// again in the background.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let token = locks.mutex("invoices/42").run(|token, _| async move { token }).await?;
    /// assert!(token.get() > 0);
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`lock`](Mutex::lock). [`Lost`](crate::ErrorKind::Lost): the lock was lost during
    /// the work, or just after its last step.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background.
    pub fn run<F, Work>(&self, work: F) -> impl Future<Output = Result<Work::Output>> + use<F, Work>
    where
        F: FnOnce(Token, LeaseHandle) -> Work,
        Work: Future,
    {
        let mutex = self.clone();
        async move {
            let guard = mutex.lock().await?;
            let output = guard.run(work(guard.token(), guard.handle())).await?;
            match guard.release().await {
                Err(error) if error.is_lost() => Err(error),
                _ => Ok(output),
            }
        }
    }

    /// Takes the lock if it is free, and returns `None` if it is not.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub fn try_lock(&self) -> impl Future<Output = Result<Option<MutexGuard>>> + Send + use<> {
        let locked = self.claim.attempt(Share::WHOLE);
        async move { Ok(locked.await?.map(MutexGuard)) }
    }

    /// Waits for the lock for at most `time`, and returns `None` if it was busy until then.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind). [`Unavailable`](crate::ErrorKind::Unavailable): the
    /// store did not answer within `time`, so it is unknown whether the lock is busy.
    pub fn try_lock_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<MutexGuard>>> + Send + use<> {
        let locked = self.claim.wait_for(Share::WHOLE, time);
        async move { Ok(locked.await?.map(MutexGuard)) }
    }

    /// The holder, or `None` if the lock is free. If readers of the same key hold it, this is the
    /// first of them.
    ///
    /// The answer may be old when it arrives: another client may lock or release at any time.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?.with_owner("worker-7")?;
    /// let mutex = locks.mutex("invoices/42");
    /// assert!(mutex.holder().await?.is_none());
    /// let guard = mutex.lock().await?;
    /// let holder = mutex.holder().await?.expect("it is locked");
    /// assert_eq!((holder.id, &*holder.owner), (guard.id(), "worker-7"));
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub fn holder(&self) -> impl Future<Output = Result<Option<LineEntry>>> + Send + use<> {
        let Claim { locks, key, .. } = self.claim.clone();
        async move {
            let line = locks.line(key?).await?;
            Ok(line.into_iter().find(|entry| entry.state == TicketState::Holding))
        }
    }
}
