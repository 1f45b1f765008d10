//! The handle of a lease, which tasks without the guard observe.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::background::client::Client;
use crate::background::lease::Lease;
use crate::background::listener::until;
use crate::blocking::Blocking;
use crate::lease::shared::SharedLease;
use crate::lease::state::State;
use crate::{Error, Key, Loss, Note, Result, Share, TicketId, TicketState};

/// A handle to observe a lease from other tasks. It does not keep the lock: only the
/// guard does.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let monitor = std::thread::spawn({
///     let held = guard.handle();
///     move || tenure::blocking::block_on(held.ended())
/// });
/// guard.release().await?;
/// assert_eq!(monitor.join().unwrap(), None, "it was released, and not lost");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct LeaseHandle {
    shared: Arc<SharedLease>,
    client: Arc<Client>,
    number: u64,
}

impl LeaseHandle {
    pub(super) fn new(lease: &Lease) -> Self {
        let Lease { shared, client, number, .. } = lease;
        Self { shared: shared.clone(), client: client.clone(), number: *number }
    }

    /// The ticket's number in its line. A fence takes the [`Token`](crate::Token) of an exclusive
    /// guard. A resource with readers compares this number as well.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The key of the lock.
    pub fn key(&self) -> &Key {
        &self.shared.key
    }

    /// The share of the line that is held. A [downgrade](crate::WriteGuard::downgrade) makes it
    /// smaller.
    ///
    /// ```
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let permits = locks.semaphore("downloads", 5).acquire_many(2).await?;
    /// assert_eq!((permits.share().take(), permits.share().of()), (2, 5));
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    pub fn share(&self) -> Share {
        self.shared.ticket().share
    }

    /// The id of the ticket in the line.
    pub fn id(&self) -> TicketId {
        self.shared.id
    }

    /// Returns an error if the lease has expired by this machine's clock, or a loss is known.
    ///
    /// It sends no request, so it is cheap enough for every step. A break by an operator is known
    /// after the next renewal, or at once while a task awaits [`lost`](LeaseHandle::lost).
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost), with the reason; [`Invalid`](crate::ErrorKind::Invalid)
    /// after the release.
    pub fn check(&self) -> Result<()> {
        match self.shared.with(|lease| lease.judge(self.client.runtime.now())) {
            State::Holding(_) => Ok(()),
            State::Lost(loss) => Err(Error::lost(loss)),
            State::Asked | State::Waiting | State::Released => {
                Err(Error::invalid("the lock was released: its guard was given back"))
            }
        }
    }

    /// The blocking form, for programs without async.
    pub fn blocking(&self) -> Blocking<Self> {
        Blocking::new(self.clone())
    }

    /// The time until the lease expires if no further renewal succeeds.
    /// [`max_hold`](crate::Mutex::max_hold) is included. Zero once the lock is lost or released.
    /// `None`: the lease does not expire, because the kernel knows that the holder lives.
    pub fn remaining(&self) -> Option<Duration> {
        self.shared.with(|lease| lease.remaining(self.client.runtime.now()))
    }

    /// The ttl that the store granted with the last renewal. After a crash of this process the next
    /// holder waits for about that long. It is longer than the requested ttl if the store raises or
    /// rounds it. `None`: the lease does not expire, because the kernel knows that the holder
    /// lives.
    pub fn life(&self) -> Option<Duration> {
        self.shared.life()
    }

    /// Waits until the lock is lost, and returns the reason. It never returns if the lock is
    /// released first: a task that must end in both cases awaits [`ended`](LeaseHandle::ended).
    ///
    /// # Cancel safety
    ///
    /// A later call returns the same loss at once.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let held = self.clone();
        async move { held.until(|state| matches!(state, State::Lost(_))).await.expect("it is lost") }
    }

    /// Waits until the lock is lost or released. Returns the reason of a loss, and `None` after a
    /// release or a drop of the guard. Cancel-safe, like [`lost`](LeaseHandle::lost).
    pub fn ended(&self) -> impl Future<Output = Option<Loss>> + Send + use<> {
        let held = self.clone();
        async move { held.until(|state| matches!(state, State::Lost(_) | State::Released)).await }
    }

    /// Waits until a renewal has failed. The lock will be lost unless a later renewal succeeds.
    /// Also returns, with no time remaining, when the lock is lost or released.
    ///
    /// # Cancel safety
    ///
    /// A later call returns at once while the last renewal has failed.
    pub fn warned(&self) -> impl Future<Output = Warning> + Send + use<> {
        let held = self.clone();
        async move {
            loop {
                let mut changed = pin!(held.shared.changed());
                changed.as_mut().enable();
                let now = held.client.runtime.now();
                let (warning, over) = held.shared.with(|lease| {
                    lease.judge(now);
                    let (failed, remaining) = (lease.failed(), lease.remaining(now));
                    (Warning { failed, remaining }, lease.is_over())
                });
                if warning.failed > 0 || over {
                    return warning;
                }
                changed.await;
            }
        }
    }

    /// Waits until `reached` accepts the state. Returns the reason if the lock is lost.
    async fn until(&self, reached: impl Fn(State) -> bool) -> Option<Loss> {
        let judge = || {
            let state = self.shared.with(|lease| lease.judge(self.client.runtime.now()));
            reached(state).then_some(state)
        };
        match until(&self.client, &self.shared, TicketState::Holding, judge).await {
            State::Lost(loss) => Some(loss),
            State::Asked | State::Waiting | State::Holding(_) | State::Released => None,
        }
    }

    /// Polls `work` while the lock is held, and drops it when the lock is lost.
    ///
    /// The lease is checked before every poll. A program that was suspended for longer than its
    /// lease therefore stops before its next step.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost): the work was dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work. The lock stays held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        until_lost(|| self.check(), self.lost(), work).await
    }

    /// The error of the last renewal, if none has succeeded since. It stays after a loss. It sends
    /// no request.
    pub fn trouble(&self) -> Option<Error> {
        self.shared.with(|lease| lease.trouble())
    }

    /// Whether the lock was lost because [`break_ticket`](crate::Locks::break_ticket) asked the
    /// holder to leave. No other client holds the lock until this guard is released. If this is
    /// false after a loss as [`Broken`](Loss::Broken), the ticket was removed by force, by an
    /// operator of the store, or by a store that lost data.
    ///
    /// ```
    /// use tenure::Loss;
    ///
    /// # tenure::blocking::block_on(async {
    /// let locks = tenure::connect("memory:").await?;
    /// let guard = locks.mutex("invoices/42").lock().await?;
    /// locks.break_ticket("invoices/42", guard.id()).await?;
    /// assert_eq!(guard.lost().await, Loss::Broken);
    /// assert!(guard.was_asked_to_leave());
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    pub fn was_asked_to_leave(&self) -> bool {
        self.shared.with(|lease| lease.was_asked_to_leave())
    }

    /// Renews the lease now. Needed only with [`manual_renewal`](crate::Mutex::manual_renewal).
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if the lock is lost; the error of the renewal if it failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the renewal may or may not happen. Both are safe.
    pub async fn extend(&self) -> Result<()> {
        self.check()?;
        let failed = self.shared.with(|lease| lease.failed());
        self.client.renewer.renew(&self.shared).await;
        self.client.renewer.reschedule(&self.shared);
        self.check()?;
        self.shared.with(|lease| lease.trouble_since(failed)).map_or(Ok(()), Err)
    }

    /// Changes the note that others see in the line.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for a note that is too long; the errors of
    /// [`extend`](LeaseHandle::extend). If the store is unreachable, the next renewal sends the
    /// note.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after its first poll, the next renewal sends the note.
    pub async fn set_note(&self, note: impl Into<Arc<str>>) -> Result<()> {
        self.shared.set_note(Note::new(note)?);
        self.extend().await
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseHandle")
            .field("key", &self.shared.key)
            .field("number", &self.number)
            .field("state", &self.shared.with(|lease| lease.state()))
            .finish_non_exhaustive()
    }
}

/// Polls the work while `check` succeeds, and drops it on a loss.
pub(crate) async fn until_lost<F: Future>(
    check: impl Fn() -> Result<()>,
    lost: impl Future<Output = Loss>,
    work: F,
) -> Result<F::Output> {
    let mut lost = pin!(lost);
    let mut work = pin!(work);
    poll_fn(|context| {
        if let Err(error) = check() {
            return Poll::Ready(Err(error));
        }
        if let Poll::Ready(loss) = lost.as_mut().poll(context) {
            return Poll::Ready(Err(Error::lost(loss)));
        }
        work.as_mut().poll(context).map(Ok)
    })
    .await
}

/// The state of a lease whose renewals fail.
///
/// ```
/// use std::time::Duration;
///
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let warned = guard.warned();
/// guard.release().await?;
/// assert_eq!(warned.await.remaining, Some(Duration::ZERO), "the hold is over");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Warning {
    /// Number of renewals that failed in a row.
    pub failed: u32,
    /// The time until the lease expires. `None`: it does not expire.
    pub remaining: Option<Duration>,
}
