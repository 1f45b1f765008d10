//! Several mutexes as one: taken in the order of their keys, lost together.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;

use crate::api::claim::{Claim, busy_while_waiting, lease_options};
use crate::api::lease_handle::until_lost;
use crate::lease::options::LockOptions;
use crate::{Error, Key, Locks, Loss, MutexGuard, Result, Share, Time, Token, Warning};

/// Several mutexes that are locked together. Made by [`Locks::multi_lock`].
///
/// They are locked in the order of their keys, which is the same for all clients. Two clients that
/// want the same locks therefore cannot deadlock. A key that is given twice is locked once.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// // Another client may name them in the other order: both lock `alice` first.
/// let both = locks.multi_lock(["accounts/bob", "accounts/alice"]).lock().await?;
/// assert!(locks.mutex("accounts/bob").try_lock().await?.is_none());
/// both.release().await?;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "it locks nothing until it is asked to"]
pub struct MultiLock {
    claim: Template,
}

/// The keys, and the options that they have in common.
#[derive(Clone, Debug)]
struct Template {
    locks: Locks,
    keys: Vec<Result<Key>>,
    options: LockOptions,
}

impl Locks {
    /// The mutexes of all these keys. It sends no request.
    pub fn multi_lock<K: AsRef<str>>(&self, keys: impl IntoIterator<Item = K>) -> MultiLock {
        let keys = keys.into_iter().map(Key::new).collect();
        MultiLock { claim: Template { locks: self.clone(), keys, options: LockOptions::default() } }
    }
}

impl MultiLock {
    lease_options!();

    /// Waits for all of them. Cancel safety is that of
    /// [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// If one lock is lost while it waits for another, all are released. It starts again if the
    /// program was suspended or the store was unreachable. It fails if an operator broke a ticket.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn lock(&self) -> impl Future<Output = Result<MultiGuard>> + Send + use<> {
        let all = self.clone();
        async move {
            let taken = all.take(None).await?;
            taken.ok_or_else(busy_while_waiting)
        }
    }

    /// Locks all of them, does the work, and releases. The work gets the fencing token of each key,
    /// in the order of the keys. See [`Mutex::run`](crate::Mutex::run).
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let accounts = locks.multi_lock(["accounts/alice", "accounts/bob"]);
    /// let count = accounts.run(|tokens| async move { tokens.len() }).await?;
    /// assert_eq!(count, 2);
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::run`](crate::Mutex::run).
    pub fn run<F, Work>(&self, work: F) -> impl Future<Output = Result<Work::Output>> + use<F, Work>
    where
        F: FnOnce(Vec<(Key, Token)>) -> Work,
        Work: Future,
    {
        let all = self.clone();
        async move {
            let guard = all.lock().await?;
            let tokens = guard.tokens().map(|(key, token)| (key.clone(), token)).collect();
            let output = guard.run(work(tokens)).await?;
            match guard.release().await {
                Err(error) if error.is_lost() => Err(error),
                _ => Ok(output),
            }
        }
    }

    /// Takes all of them if all are free, and returns `None` otherwise.
    pub fn try_lock(&self) -> impl Future<Output = Result<Option<MultiGuard>>> + Send + use<> {
        self.try_lock_for(Duration::ZERO)
    }

    /// Waits for all of them for at most `time`, and returns `None` if one was busy until then.
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`](crate::Mutex::lock).
    pub fn try_lock_for(
        &self,
        time: Duration,
    ) -> impl Future<Output = Result<Option<MultiGuard>>> + Send + use<> {
        let all = self.clone();
        async move {
            let deadline = all.claim.locks.client.runtime.now().plus(time);
            all.take(Some(deadline)).await
        }
    }

    async fn take(&self, deadline: Option<Time>) -> Result<Option<MultiGuard>> {
        let claims = self.claims()?;
        loop {
            match self.take_each(&claims, deadline).await {
                Err(Stopped::Slept(loss)) => {
                    tracing::info!(%loss, "one of several locks was lost; taking all of them anew");
                }
                Err(Stopped::Failed(error)) => return Err(error),
                Ok(taken) => return Ok(taken),
            }
        }
    }

    /// Takes one after the other, while all that were taken before are held.
    async fn take_each(
        &self,
        claims: &[Claim],
        deadline: Option<Time>,
    ) -> Result<Option<MultiGuard>, Stopped> {
        let runtime = &self.claim.locks.client.runtime;
        let mut guard = MultiGuard(Vec::new());
        for claim in claims {
            // On the heap, because this future is large and lies within the caller's.
            let next = Box::pin(async {
                match deadline {
                    None => claim.wait(Share::WHOLE).await.map(Some),
                    Some(deadline) => {
                        claim.wait_for(Share::WHOLE, runtime.now().until(deadline)).await
                    }
                }
            });
            match guard.run(next).await.map_err(Stopped::by)? {
                Ok(Some(one)) => guard.0.push(MutexGuard(one)),
                Ok(None) => return Ok(None),
                Err(error) => return Err(Stopped::Failed(error)),
            }
        }
        guard.check().map_err(Stopped::by)?;
        Ok(Some(guard))
    }

    fn claims(&self) -> Result<Vec<Claim>> {
        let Template { locks, keys, options } = &self.claim;
        let mut keys: Vec<Key> = keys.iter().cloned().collect::<Result<_>>()?;
        if keys.is_empty() {
            return Err(Error::invalid("no keys were named: name what is locked"));
        }
        keys.sort_unstable();
        keys.dedup();
        let claim = |key| Claim { locks: locks.clone(), key: Ok(key), options: options.clone() };
        Ok(keys.into_iter().map(claim).collect())
    }
}

/// Why not all locks were taken.
enum Stopped {
    /// A lease expired or the store was unreachable: all locks can be taken again.
    Slept(Loss),
    Failed(Error),
}

impl Stopped {
    fn by(error: Error) -> Self {
        match error.loss() {
            Some(loss @ (Loss::Expired | Loss::SessionGone | Loss::Unreachable)) => {
                Self::Slept(loss)
            }
            _ => Self::Failed(error),
        }
    }
}

/// The output of the first future that is ready. Pending forever without futures.
async fn first_of<T>(all: Vec<impl Future<Output = T>>) -> T {
    if all.is_empty() {
        return pending().await;
    }
    select_all(all.into_iter().map(Box::pin)).await.0
}

/// Several held locks. If one is lost, all count as lost.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let both = locks.multi_lock(["accounts/alice", "accounts/bob"]).lock().await?;
/// for (account, token) in both.tokens() {
///     println!("UPDATE accounts … WHERE name = '{account}' AND token <= {token}");
/// }
/// let moved = both.run(async { /* stopped as soon as either lock is lost */ 42 }).await?;
/// assert_eq!(moved, 42);
/// both.release().await?;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[must_use = "the locks are released as soon as their guard is dropped"]
pub struct MultiGuard(Vec<MutexGuard>);

impl MultiGuard {
    /// The held locks, in the order of their keys.
    pub fn guards(&self) -> &[MutexGuard] {
        &self.0
    }

    /// The token of each key.
    pub fn tokens(&self) -> impl Iterator<Item = (&Key, Token)> {
        self.0.iter().map(|guard| (guard.key(), guard.token()))
    }

    /// Returns an error if one of them is lost. See
    /// [`LeaseHandle::check`](crate::LeaseHandle::check).
    ///
    /// # Errors
    ///
    /// Those of [`LeaseHandle::check`](crate::LeaseHandle::check).
    pub fn check(&self) -> Result<()> {
        self.0.iter().try_for_each(MutexGuard::check)
    }

    /// The time until the first of the leases expires without a further renewal. `None`: none of
    /// them expires.
    pub fn remaining(&self) -> Option<Duration> {
        self.0.iter().filter_map(MutexGuard::remaining).min()
    }

    /// The shortest ttl that the store granted. `None`: no lease expires.
    pub fn life(&self) -> Option<Duration> {
        self.0.iter().filter_map(MutexGuard::life).min()
    }

    /// The error of the last renewal of one of them, if none of its renewals has succeeded since.
    pub fn trouble(&self) -> Option<Error> {
        self.0.iter().find_map(MutexGuard::trouble)
    }

    /// Whether one of them was lost because an operator asked this holder to leave. See
    /// [`LeaseHandle::was_asked_to_leave`](crate::LeaseHandle::was_asked_to_leave).
    pub fn was_asked_to_leave(&self) -> bool {
        self.0.iter().any(MutexGuard::was_asked_to_leave)
    }

    /// Waits until a renewal of one of them has failed. See
    /// [`LeaseHandle::warned`](crate::LeaseHandle::warned).
    pub fn warned(&self) -> impl Future<Output = Warning> + Send + use<> {
        first_of(self.0.iter().map(MutexGuard::warned).collect())
    }

    /// Changes the note of all of them. Cancel-safe, like
    /// [`LeaseHandle::set_note`](crate::LeaseHandle::set_note).
    ///
    /// # Errors
    ///
    /// Those of [`LeaseHandle::set_note`](crate::LeaseHandle::set_note). The notes after the first
    /// error are not changed.
    pub async fn set_note(&self, note: impl Into<Arc<str>>) -> Result<()> {
        let note = note.into();
        for guard in &self.0 {
            guard.set_note(note.clone()).await?;
        }
        Ok(())
    }

    /// Waits until one of them is lost. See [`LeaseHandle::lost`](crate::LeaseHandle::lost). It
    /// never returns once they are released: a task that must end then awaits
    /// [`ended`](MultiGuard::ended).
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        first_of(self.0.iter().map(MutexGuard::lost).collect())
    }

    /// Waits until one of them is lost or released. Returns the reason of a loss, and `None` after
    /// a release. See [`LeaseHandle::ended`](crate::LeaseHandle::ended).
    pub fn ended(&self) -> impl Future<Output = Option<Loss>> + Send + use<> {
        first_of(self.0.iter().map(MutexGuard::ended).collect())
    }

    /// Renews all of them now. Cancel-safe, like
    /// [`LeaseHandle::extend`](crate::LeaseHandle::extend).
    ///
    /// # Errors
    ///
    /// Those of [`LeaseHandle::extend`](crate::LeaseHandle::extend).
    pub async fn extend(&self) -> Result<()> {
        for guard in &self.0 {
            guard.extend().await?;
        }
        Ok(())
    }

    /// Polls `work` while all locks are held. Cancel-safe, like
    /// [`LeaseHandle::run`](crate::LeaseHandle::run).
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost): one lock was lost, and the work was dropped.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        until_lost(|| self.check(), self.lost(), work).await
    }

    /// Releases all of them, the last one first. Returns an error if one was lost before.
    ///
    /// # Errors
    ///
    /// The first error of [`MutexGuard::release`]. The other locks are released all the same.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, all are released in the background.
    pub async fn release(mut self) -> Result<()> {
        let mut outcome = Ok(());
        while let Some(guard) = self.0.pop() {
            let released = guard.release().await;
            outcome = outcome.and(released);
        }
        outcome
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        while let Some(guard) = self.0.pop() {
            drop(guard);
        }
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}
