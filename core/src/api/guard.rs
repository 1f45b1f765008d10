//! The guard of a held lock. It reads the lease's state, and releases the ticket when it is
//! dropped.

use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::api::locks::Inner;
use crate::background::admission::Slot;
use crate::background::listener::Listener;
use crate::background::releaser::JoinState;
use crate::blocking::Blocking;
use crate::lease::shared::SharedLease;
use crate::lease::state::State;
use crate::{
    Engine as _, Error, Key, LeaveMode, LeaveOutcome, Loss, Note, Result, Share, TicketId,
    TicketState,
};

/// A held lock. Dropping it releases the lock in the background. [`release`](Guard::release) waits
/// for the store, and returns whether the lock was held until then.
///
/// A lock can be lost while its guard lives: the program was paused for too long, the store was
/// unreachable, or an operator broke it. **A lock cannot stop a program that does not check.** Call
/// [`check`](LeaseHandle::check) before each step that must not happen twice, or let
/// [`run`](LeaseHandle::run) stop the work. Only a resource that refuses old
/// [tokens](LeaseHandle::token) is fully protected.
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let token = guard.token();
/// println!("UPDATE … WHERE token <= {token}");
/// guard.check()?;
/// guard.release().await?;
/// let next = locks.mutex("invoices/42").lock().await?;
/// assert!(next.token() > token);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct Guard {
    held: LeaseHandle,
    entry: LeaveOnDrop,
}

impl Guard {
    pub(crate) fn new(entry: LeaveOnDrop, number: u64) -> Self {
        let held = LeaseHandle { kept: entry.kept.clone(), inner: entry.inner.clone(), number };
        Self { held, entry }
    }

    /// Releases the lock, and returns whether it was held until then.
    ///
    /// # Errors
    ///
    /// * [`Lost`](crate::ErrorKind::Lost): the lock was lost before, and another client may have
    ///   held it.
    /// * [`Unavailable`](crate::ErrorKind::Unavailable): the store did not confirm the release. It
    ///   is tried again in the background.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lock is released in the background.
    pub async fn release(self) -> Result<()> {
        let Self { held, entry } = self;
        let was_held = held.kept.with(|hold| hold.release(held.inner.host.now()));
        entry.inner.keeper.forget(&held.kept);
        let left = match entry.inner.engine.leave(&held.kept.ticket(), LeaveMode::Now).await {
            Ok(left) => left,
            // A known loss is more important than a failed release.
            Err(error) => return was_held.and(Err(error)),
        };
        entry.has_left();
        if left == LeaveOutcome::Absent && was_held.is_ok() {
            held.kept.was_gone_at_release(held.number);
            return Err(Error::lost(Loss::Broken));
        }
        was_held
    }

    /// A handle to observe the lease from other tasks. It can be cloned and cannot release the
    /// lock.
    pub fn handle(&self) -> LeaseHandle {
        self.held.clone()
    }

    pub(crate) async fn shrink(&self, share: Share) -> Result<()> {
        self.held.kept.set_share(share);
        match self.held.extend().await {
            Err(error) if error.is_retryable() => Ok(()),
            outcome => outcome,
        }
    }
}

impl Deref for Guard {
    type Target = LeaseHandle;

    fn deref(&self) -> &LeaseHandle {
        &self.held
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.held, f)
    }
}

/// A handle to observe a lease. It does not keep the lock: only the guard does.
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
    kept: Arc<SharedLease>,
    inner: Arc<Inner>,
    number: u64,
}

impl LeaseHandle {
    /// The fencing token: a number larger than that of every earlier holder of the key.
    ///
    /// It protects a resource that refuses older tokens in one step with the write. The holder
    /// sends its token to the resource before its first read. Readers and holders of permits hold
    /// at the same time, so the order of their tokens does not say which of them still holds. The
    /// page `fencing` of the crate `tenure` lists what a resource may refuse then.
    pub fn token(&self) -> u64 {
        self.number
    }

    /// The key of the lock.
    pub fn key(&self) -> &Key {
        &self.kept.key
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
        self.kept.ticket().share
    }

    /// The id of the ticket in the line.
    pub fn id(&self) -> TicketId {
        self.kept.id
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
        match self.kept.with(|hold| hold.judge(self.inner.host.now())) {
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
        self.kept.with(|hold| hold.remaining(self.inner.host.now()))
    }

    /// The ttl that the store granted with the last renewal. After a crash of this process the next
    /// holder waits for about that long. It is longer than the requested ttl if the store raises or
    /// rounds it. `None`: the lease does not expire, because the kernel knows that the holder
    /// lives.
    pub fn life(&self) -> Option<Duration> {
        self.kept.life()
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
                let mut news = pin!(held.kept.news());
                news.as_mut().enable();
                let now = held.inner.host.now();
                let (warning, over) = held.kept.with(|hold| {
                    hold.judge(now);
                    let (failed, remaining) = (hold.failed(), hold.remaining(now));
                    (Warning { failed, remaining }, hold.is_over())
                });
                if warning.failed > 0 || over {
                    return warning;
                }
                news.await;
            }
        }
    }

    /// Waits until `reached` accepts the state. Returns the reason if the lock is lost.
    async fn until(&self, reached: impl Fn(State) -> bool) -> Option<Loss> {
        let judge = || {
            let state = self.kept.with(|hold| hold.judge(self.inner.host.now()));
            reached(state).then_some(state)
        };
        match Listener::new(&self.inner, &self.kept).until(TicketState::Holding, judge).await {
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
        self.kept.with(|hold| hold.trouble())
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
    /// assert!(guard.was_told());
    /// # Ok::<(), tenure::Error>(()) }).unwrap();
    /// ```
    pub fn was_told(&self) -> bool {
        self.kept.with(|hold| hold.was_told())
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
        let failed = self.kept.with(|hold| hold.failed());
        self.inner.keeper.renew(&self.kept).await;
        self.inner.keeper.reschedule(&self.kept);
        self.check()?;
        self.kept.with(|hold| hold.trouble_since(failed)).map_or(Ok(()), Err)
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
        self.kept.set_note(Note::new(note)?);
        self.extend().await
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseHandle")
            .field("key", &self.kept.key)
            .field("token", &self.number)
            .field("state", &self.kept.with(|hold| hold.state()))
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

/// A ticket that leaves its line when this is dropped.
pub(crate) struct LeaveOnDrop {
    pub(crate) kept: Arc<SharedLease>,
    pub(crate) inner: Arc<Inner>,
    trace: Option<JoinState>,
    /// The place of a waiting ticket, where their number is limited: see
    /// [`Admission`](crate::background::admission::Admission).
    slot: Option<Slot>,
}

impl LeaveOnDrop {
    /// Must be called before the ticket is sent: a join whose caller is cancelled is then removed.
    pub(crate) fn new(kept: Arc<SharedLease>, inner: Arc<Inner>, slot: Option<Slot>) -> Self {
        inner.entries.add();
        Self { kept, inner, trace: Some(JoinState::Joining), slot }
    }

    /// The store has confirmed that the ticket is in the line.
    pub(crate) fn has_joined(&mut self) {
        self.trace = Some(JoinState::InLine);
    }

    /// The ticket is served, so it no longer waits.
    pub(crate) fn is_served(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.served();
        }
    }

    /// The store has confirmed that the ticket is not in the line.
    pub(crate) fn has_left(mut self) {
        self.trace = None;
    }
}

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        self.inner.keeper.forget(&self.kept);
        if let Some(trace) = self.trace {
            let now = self.inner.host.now();
            let token = self.kept.with(|hold| {
                let state = hold.judge(now);
                // A loss that was reported before stays as it is: the owner has seen it or has
                // gone.
                let _ = hold.release(now);
                if let State::Holding(token) = state { Some(token) } else { None }
            });
            let held = token.map(|token| (self.kept.clone(), token));
            if let Some(slot) = &mut self.slot {
                slot.gave_up();
            }
            self.inner.sweeper.give_back(self.kept.ticket(), trace, held, self.slot.take());
        }
        self.inner.entries.remove();
    }
}
