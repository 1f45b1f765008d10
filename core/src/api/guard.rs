//! A guard: what a user has of a lock that is held, until it is released, dropped or lost. It asks the hold what to believe,
//! and the store to let the ticket go.

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

/// A held lock. Dropping it gives it back, and so does [`release`](Guard::release), which also says
/// whether it was still held.
///
/// A guard can be lost: its program was paused for too long, the store could not be reached, an
/// operator broke it. **No lock can stop a program that does not look.** Ask [`check`](LeaseHandle::check)
/// before what must not happen twice, or let [`run`](LeaseHandle::run) stop the work; and where the resource
/// can refuse old numbers, send it the [`token`](LeaseHandle::token), which is the only full protection.
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

    /// Gives the lock back, and says whether it was held until now.
    ///
    /// [`Lost`](crate::ErrorKind::Lost): it was not, and somebody else may have held it meanwhile.
    /// [`Unavailable`](crate::ErrorKind::Unavailable): the store did not confirm; it goes on being given
    /// back in the background.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lock is given back in the background all the same.
    pub async fn release(self) -> Result<()> {
        let Self { held, entry } = self;
        let was_held = held.kept.with(|hold| hold.release(held.inner.host.now()));
        entry.inner.keeper.forget(&held.kept);
        let left = match entry.inner.engine.leave(&held.kept.ticket(), LeaveMode::Now).await {
            Ok(left) => left,
            // A loss that is known outweighs an answer that is not.
            Err(error) => return was_held.and(Err(error)),
        };
        entry.has_left();
        if left == LeaveOutcome::Absent && was_held.is_ok() {
            held.kept.was_gone_at_release(held.number);
            return Err(Error::lost(Loss::Broken));
        }
        was_held
    }

    /// A view of the hold that can be cloned and handed to others, without the right to release.
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

/// A view of a hold: what it is, and whether it still is. It keeps nothing locked by itself.
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
    /// The number of this hold, above that of every earlier hold of the key: the fencing token.
    ///
    /// It protects what refuses older tokens, in one step with the write. The holder shows its token
    /// to the resource before its first read. Readers and holders of permits hold together, and no order of
    /// their tokens says which of them still does: the page `fencing` of the crate `tenure` tells what a
    /// resource may refuse then.
    pub fn token(&self) -> u64 {
        self.number
    }

    /// What is held.
    pub fn key(&self) -> &Key {
        &self.kept.key
    }

    /// How much of it is held. A [downgrade](crate::WriteGuard::downgrade) makes it less.
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

    /// The ticket's id, as an operator sees it in the line.
    pub fn id(&self) -> TicketId {
        self.kept.id
    }

    /// Whether it is still held, by the clock and by all that is known. Asks nobody, and is cheap
    /// enough to be called before every step.
    pub fn check(&self) -> Result<()> {
        match self.kept.with(|hold| hold.judge(self.inner.host.now())) {
            State::Holding(_) => Ok(()),
            State::Lost(loss) => Err(Error::lost(loss)),
            State::Asked | State::Waiting | State::Released => {
                Err(Error::invalid("the lock was released: its guard was given back"))
            }
        }
    }

    /// The same for programs without async.
    pub fn blocking(&self) -> Blocking<Self> {
        Blocking::new(self.clone())
    }

    /// How long it can be relied on if no renewal came through any more, its
    /// [`max_hold`](crate::Mutex::max_hold) included; nothing once it is lost or released. `None` where
    /// the kernel knows that the holder lives, and there is no such end.
    pub fn remaining(&self) -> Option<Duration> {
        self.kept.with(|hold| hold.remaining(self.inner.host.now()))
    }

    /// For how long the store keeps it without another sign of life, as it answered the last one: whoever comes next
    /// after a crash waits for about so long. More than the ttl that was asked for where a store raises or rounds that. `None` where the
    /// kernel knows that the holder lives.
    pub fn life(&self) -> Option<Duration> {
        self.kept.life()
    }

    /// Returns when the lock is lost, and says why. Never returns if it is released first: a task that
    /// must end in either case awaits [`ended`](LeaseHandle::ended).
    ///
    /// # Cancel safety
    ///
    /// A loss is never un-told: whoever asks later gets the same answer at once.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let held = self.clone();
        async move { held.until(|state| matches!(state, State::Lost(_))).await.expect("it is lost") }
    }

    /// Returns when the hold is over: with the reason if it was lost, with `None` if it was released or
    /// dropped. Cancel-safe, like [`lost`](LeaseHandle::lost).
    pub fn ended(&self) -> impl Future<Output = Option<Loss>> + Send + use<> {
        let held = self.clone();
        async move { held.until(|state| matches!(state, State::Lost(_) | State::Released)).await }
    }

    /// Returns when a renewal has failed and the lock will be lost unless a later one comes through:
    /// time to slow down, or to finish. Also returns, with nothing remaining, when the hold is over.
    ///
    /// # Cancel safety
    ///
    /// A lock that is in trouble stays so until a renewal comes through, whoever asks.
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

    /// Listens until the state is one of these, and says why the lock is lost, if it is.
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

    /// Works under the lock: the work is dropped the moment the lock is lost.
    ///
    /// The clock is read before every step of the work, so that a program that slept past its lease
    /// is stopped before it does anything more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work. The lock stays held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        until_lost(|| self.check(), self.lost(), work).await
    }

    /// Why the last renewal failed, if none has come through since: the store was silent, or refused. It is told after a loss, too.
    /// Nothing is asked for it.
    pub fn trouble(&self) -> Option<Error> {
        self.kept.with(|hold| hold.trouble())
    }

    /// Whether it was lost because somebody told it to leave, with [`break_ticket`](crate::Locks::break_ticket): then nobody holds before
    /// it is released. A ticket that was only found to be gone may have been taken out by force, by an operator of the store, or by
    /// a store that lost its data.
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

    /// Renews now. For locks that are renewed by hand; on others it only comes sooner.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the renewal may have been carried out or not; either is safe.
    pub async fn extend(&self) -> Result<()> {
        self.check()?;
        let failed = self.kept.with(|hold| hold.failed());
        self.inner.keeper.renew(&self.kept).await;
        self.inner.keeper.reschedule(&self.kept);
        self.check()?;
        self.kept.with(|hold| hold.trouble_since(failed)).map_or(Ok(()), Err)
    }

    /// Changes the note in place, for all who look at the line.
    ///
    /// If the store cannot be reached, the next renewal that comes through carries it.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after it was first polled, the next renewal carries the note.
    pub async fn set_note(&self, note: impl Into<Arc<str>>) -> Result<()> {
        self.kept.set_note(Note::new(note)?);
        self.extend().await
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("key", &self.kept.key)
            .field("token", &self.number)
            .field("state", &self.kept.with(|hold| hold.state()))
            .finish_non_exhaustive()
    }
}

/// Polls the work only while `check` agrees, and drops it on a loss.
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

/// Renewals have begun to fail.
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
    /// How many in a row.
    pub failed: u32,
    /// How long the lock can still be relied on.
    pub remaining: Option<Duration>,
}

/// A ticket that is to leave its line when its owner is done with it, however that comes about.
pub(crate) struct LeaveOnDrop {
    pub(crate) kept: Arc<SharedLease>,
    pub(crate) inner: Arc<Inner>,
    trace: Option<JoinState>,
    /// Where the number of tickets that wait is limited: see [`Admission`](crate::keeping::admission::Admission).
    slot: Option<Slot>,
}

impl LeaveOnDrop {
    /// Made before the ticket is sent anywhere, so that nothing can be left behind.
    pub(crate) fn new(kept: Arc<SharedLease>, inner: Arc<Inner>, slot: Option<Slot>) -> Self {
        inner.entries.add();
        Self { kept, inner, trace: Some(JoinState::Joining), slot }
    }

    /// The store has confirmed that the ticket is in the line.
    pub(crate) fn has_joined(&mut self) {
        self.trace = Some(JoinState::InLine);
    }

    /// The ticket is served: it waits no longer.
    pub(crate) fn is_served(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.served();
        }
    }

    /// The store has confirmed that it is not.
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
                // A loss that was reported before stays as it is: the owner has seen it or has gone.
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
