//! One successful run for each slot of a schedule: a mutex, and a stored text that lists the slots
//! that have run.

pub(crate) mod attempt;
pub(crate) mod history;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use self::attempt::SlotAttempt;
use self::history::{Beginning, History, SlotRun, SlotState, checked_slot, millis};
use crate::api::claim::{Claim, busy_while_waiting, lease_options};
use crate::api::permit_numbers;
use crate::lease::span::shown;
use crate::toolbox::rfc3339::rfc3339_seconds;
use crate::{
    Engine as _, Error, LeaseHandle, Locks, Loss, Mutex, MutexGuard, Reason, Result, TTL_MAX, Token,
};

/// How long a slot is kept if the caller does not say it.
const KEEP_DEFAULT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Maximum number of writes of one change, if other clients or an outage prevent it.
const WRITES_MAX: u32 = 10;

/// A job that succeeds once for each slot of its schedule. Made by [`Locks::once`].
///
/// A lock excludes for the length of the work. A schedule needs more: a machine whose clock is late
/// comes after the work, and must not work again. So the store keeps the slots that have run.
///
/// * **One success for each slot.** A run begins under the mutex of the key. A slot has succeeded
///   when the success is stored. Only the present holder can store it.
/// * **A failed or killed run frees its slot**: the next caller runs it again, up to
///   [`attempts`](Once::attempts) times.
/// * **The work may run twice.** If the process dies between the end of its work and the write, the
///   next caller works again. The work of the second run has a larger [`Token`], and a resource can
///   refuse to do the same slot twice.
/// * **The slot is the scheduled time**, not the time of the call. Two machines whose clocks differ
///   name the same slot if each is started by its own clock: see [`every`](Once::every).
/// * **Clocks of clients decide when a slot is forgotten.** A machine whose clock is ahead by more
///   than [`keep`](Once::keep) forgets all slots but the last one.
/// * **The slots are as durable as the store.** A Redis that loses its data runs slots again.
///
/// ```
/// use tenure::OnceOutcome;
///
/// # tenure::blocking::block_on(async {
/// # async fn back_up() -> std::io::Result<u64> { Ok(40) }
/// let locks = tenure::connect("memory:").await?;
/// let nightly = locks.once("nightly").slot("2026-11-28");
/// // Three machines call this. One of them works.
/// match nightly.run(|_token, _lease| back_up()).await? {
///     OnceOutcome::Done(files) => println!("{files} files"),
///     OnceOutcome::Failed(error) => println!("the next caller tries again: {error}"),
///     OnceOutcome::Over(run) => println!("{} has done it", run.owner),
/// }
/// assert!(matches!(nightly.run(|_, _| back_up()).await?, OnceOutcome::Over(_)));
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "it runs nothing until it is asked to"]
pub struct Once {
    claim: Claim,
    slot: Slot,
    keep: Duration,
    attempts_max: u32,
}

#[derive(Clone, Debug)]
enum Slot {
    Unnamed,
    Named(String),
    At(SystemTime),
    Every(Duration),
}

/// The outcome of [`Once::run`].
///
/// ```
/// use tenure::OnceOutcome;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let outcome = locks.once("nightly").slot("1").run(|_, _| async { Ok::<_, ()>(7) }).await?;
/// assert!(matches!(outcome, OnceOutcome::Done(7)));
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "a failure of the work is an outcome, too"]
pub enum OnceOutcome<T, E> {
    /// The work has succeeded, and the success is stored.
    Done(T),
    /// The work has failed. The next caller runs the slot again.
    Failed(E),
    /// The slot has [succeeded](SlotState::Succeeded) before, or its attempts are used up.
    Over(SlotRun),
}

/// The answer of [`Once::start`].
///
/// ```
/// use tenure::SlotStart;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let (nightly, guard) = (locks.once("nightly").slot("1"), locks.mutex("nightly").lock().await?);
/// let SlotStart::Begun(attempt) = nightly.start(&guard.handle()).await? else { unreachable!() };
/// attempt.succeeded().await?;
/// assert!(matches!(nightly.start(&guard.handle()).await?, SlotStart::Over(_)));
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "a run that has begun must be reported as succeeded or failed"]
pub enum SlotStart {
    /// The run has begun.
    Begun(Box<SlotAttempt>),
    /// The slot has succeeded before, or its attempts are used up.
    Over(SlotRun),
}

impl Locks {
    /// One successful run for each slot of this key's schedule. It uses the mutex of the key.
    /// A quorum and locks on documents refuse it as [`Unsupported`](crate::ErrorKind::Unsupported).
    pub fn once(&self, key: impl AsRef<str>) -> Once {
        Once {
            claim: Claim::new(self, key),
            slot: Slot::Unnamed,
            keep: KEEP_DEFAULT,
            attempts_max: u32::MAX,
        }
    }
}

impl Once {
    lease_options!();

    /// Names the slot, for example `2026-11-28` or the version of a deployment.
    pub fn slot(self, name: impl Into<String>) -> Self {
        Self { slot: Slot::Named(name.into()), ..self }
    }

    /// The slot of a time of the schedule, such as the last one that a cron expression gives. Its
    /// name is that time in UTC, to the second.
    pub fn at(self, scheduled: SystemTime) -> Self {
        Self { slot: Slot::At(scheduled), ..self }
    }

    /// The slots of a schedule with a fixed period, counted from 1970 in UTC: with 24 hours they
    /// begin at midnight. The slot is the last one that has begun by the clock of this machine.
    ///
    /// A machine whose clock is behind may name the slot before. That slot does not run again if it
    /// has succeeded.
    pub fn every(self, period: Duration) -> Self {
        Self { slot: Slot::Every(period), ..self }
    }

    /// How long the store keeps a slot after its last run, 7 days by default. It must exceed the
    /// clock difference between machines, and the delay of the latest caller. The slot that ran
    /// last is kept until another one runs.
    ///
    /// A key keeps at most [`SLOTS_MAX`](crate::SLOTS_MAX) slots. A schedule
    /// ([`every`](Once::every), [`at`](Once::at)) forgets its oldest slot then. A new
    /// [named](Once::slot) slot is refused.
    pub fn keep(self, time: Duration) -> Self {
        Self { keep: time, ..self }
    }

    /// Maximum number of runs of a slot, without a limit by default. With 1, a slot that has begun
    /// never runs again, also if its process was killed.
    pub fn attempts(self, max: u32) -> Self {
        Self { attempts_max: max, ..self }
    }

    /// Waits for the lock of the key, and does the work if the slot has not succeeded yet and has
    /// attempts left. The work gets the fencing [`Token`] and a handle of the lease. It is dropped
    /// when the lock is lost: see [`LeaseHandle::run`].
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::lock`], and:
    ///
    /// * [`Lost`](crate::ErrorKind::Lost): the lock was lost before the success was written.
    /// * [`Unavailable`](crate::ErrorKind::Unavailable) after the work: the store has not confirmed
    ///   the success, so the slot may run again.
    /// * [`Unsupported`](crate::ErrorKind::Unsupported): this store keeps no slots.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background. The slot counts
    /// as begun, and runs again.
    pub fn run<F, Work, T, E>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<OnceOutcome<T, E>>> + use<F, Work, T, E>
    where
        F: FnOnce(Token, LeaseHandle) -> Work,
        Work: Future<Output = Result<T, E>>,
    {
        let once = self.fixed();
        async move {
            let outcome = once?.run_within(None, work).await?;
            outcome.ok_or_else(busy_while_waiting)
        }
    }

    /// Like [`run`](Once::run), but waits for the lock for at most `time`. Returns `None` if it was
    /// busy until then. With [`Duration::ZERO`] it does not wait.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Once::run).
    pub fn try_run_for<F, Work, T, E>(
        &self,
        time: Duration,
        work: F,
    ) -> impl Future<Output = Result<Option<OnceOutcome<T, E>>>> + use<F, Work, T, E>
    where
        F: FnOnce(Token, LeaseHandle) -> Work,
        Work: Future<Output = Result<T, E>>,
    {
        let once = self.fixed();
        async move { once?.run_within(Some(time), work).await }
    }

    /// The last run of the slot, if the slot does not run again: it has succeeded, or the last of
    /// its [`attempts`](Once::attempts) has failed. It needs no lock.
    ///
    /// `None`: the slot may run. Only the holder of the lock knows whether a run that has begun is
    /// still under way.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub async fn over(&self) -> Result<Option<SlotRun>> {
        let slot = self.slot_name()?;
        let (_, history) = self.read().await?;
        // A run that has begun may still succeed. Only the holder of the lock knows that it ended.
        Ok(self.over_in(&history, &slot).filter(|run| run.state != SlotState::Begun))
    }

    /// Begins a run under a lock of this key that the caller holds exclusively. The caller reports
    /// the end of the work to the [`SlotAttempt`], and releases the lock after that.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Once::run).
    pub async fn start(&self, lease: &LeaseHandle) -> Result<SlotStart> {
        let (slot, key) = (self.slot_name()?, self.claim.key()?);
        if lease.key() != key {
            return Err(Error::invalid(format!(
                "the slots of {key:?} need the lock of {key:?}, and not that of {:?}",
                lease.key()
            )));
        }
        let token = Token::new(lease.number())?;
        let owner = self.claim.locks.owner();
        for _ in 0..WRITES_MAX {
            let (seen, mut history) = self.read().await?;
            if history.token > token.get() {
                return Err(Error::lost(Loss::Overtaken));
            }
            if let Some(run) = self.over_in(&history, &slot) {
                return Ok(SlotStart::Over(run));
            }
            let (now_ms, keep) = (self.now_ms(), self.keep);
            let is_scheduled = !matches!(self.slot, Slot::Named(_));
            let run = Beginning { slot: &slot, token, owner, now_ms, keep, is_scheduled };
            history.begin(key, &run)?;
            let text = history.to_text();
            lease.check()?;
            if self.swap(&seen, &text).await? == text {
                let (once, lease) = (self.clone(), lease.clone());
                let run = history.find(&slot).cloned().ok_or_else(|| self.contended())?;
                return Ok(SlotStart::Begun(Box::new(SlotAttempt { once, lease, run, text })));
            }
        }
        Err(self.contended())
    }

    /// The slots of this key that are kept, the oldest run first.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub async fn slots(&self) -> Result<Vec<SlotRun>> {
        let (_, history) = self.read().await?;
        Ok(history.runs)
    }

    /// Forgets the slot of this name, so that the next caller runs it. Returns whether it was kept.
    /// A run that is under way goes on, and writes its end.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub async fn reset(&self, slot: impl AsRef<str>) -> Result<bool> {
        for _ in 0..WRITES_MAX {
            let (seen, mut history) = self.read().await?;
            let before = history.runs.len();
            history.runs.retain(|run| run.slot != slot.as_ref());
            if history.runs.len() == before {
                return Ok(false);
            }
            let text = history.to_text();
            if self.swap(&seen, &text).await? == text {
                return Ok(true);
            }
        }
        Err(self.contended())
    }

    /// Forgets all slots of this key, also those that cannot be read.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](crate::ErrorKind).
    pub async fn reset_all(&self) -> Result<()> {
        for _ in 0..WRITES_MAX {
            let seen = self.swap("", "").await?;
            if seen.starts_with(permit_numbers::FORMAT) {
                return Err(Error::rejected(
                    "this key is that of a semaphore, whose permits have numbers: it has no slots",
                ));
            }
            if self.swap(&seen, "").await?.is_empty() {
                return Ok(());
            }
        }
        Err(self.contended())
    }

    /// The name of the slot that a call would run now.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): the slot, the period or the time to keep it is not
    /// possible.
    pub fn slot_name(&self) -> Result<String> {
        self.claim.key()?;
        if self.keep.is_zero() || self.keep > TTL_MAX {
            return Err(Error::invalid(format!(
                "a slot cannot be kept for {}: the time must be longer than 0, and at most {}",
                shown(self.keep),
                shown(TTL_MAX)
            )));
        }
        if self.attempts_max == 0 {
            return Err(Error::invalid("a slot needs at least one attempt"));
        }
        match &self.slot {
            Slot::Unnamed => Err(Error::invalid(
                "no slot was named: name it with `slot`, or set a schedule with `every` or `at`",
            )),
            Slot::Named(name) => checked_slot(name.clone()),
            Slot::At(scheduled) => Ok(rfc3339_seconds(millis(*scheduled) / 1000)),
            Slot::Every(period) if period.as_secs() == 0 || period.subsec_nanos() > 0 => {
                Err(Error::invalid(format!(
                    "a schedule of every {} is not possible: use whole seconds, at least one",
                    shown(*period)
                )))
            }
            Slot::Every(period) => Ok(rfc3339_seconds(self.began_last(*period))),
        }
    }

    /// The same job with the slot that a call would run now. Later calls then run this slot, and
    /// not the next one, however long they wait.
    ///
    /// # Errors
    ///
    /// Those of [`slot_name`](Once::slot_name).
    pub fn fixed(&self) -> Result<Self> {
        self.slot_name()?;
        let slot = match self.slot {
            Slot::Every(period) => {
                Slot::At(UNIX_EPOCH + Duration::from_secs(self.began_last(period)))
            }
            _ => self.slot.clone(),
        };
        Ok(Self { slot, ..self.clone() })
    }

    /// When the last slot of this schedule began, in seconds since 1970.
    fn began_last(&self, period: Duration) -> u64 {
        let now = self.now_ms() / 1000;
        now - now % period.as_secs().max(1)
    }

    /// Waits for the lock for at most `time`, or without a limit, and runs the slot.
    async fn run_within<F, Work, T, E>(
        &self,
        time: Option<Duration>,
        work: F,
    ) -> Result<Option<OnceOutcome<T, E>>>
    where
        F: FnOnce(Token, LeaseHandle) -> Work,
        Work: Future<Output = Result<T, E>>,
    {
        if let Some(run) = self.over().await? {
            return Ok(Some(OnceOutcome::Over(run)));
        }
        let mutex = Mutex::of(self.claim.clone());
        let locked = match time {
            None => Some(mutex.lock().await?),
            Some(time) => mutex.try_lock_for(time).await?,
        };
        match locked {
            Some(guard) => self.run_in(guard, work).await.map(Some),
            None => Ok(None),
        }
    }

    async fn run_in<F, Work, T, E>(&self, guard: MutexGuard, work: F) -> Result<OnceOutcome<T, E>>
    where
        F: FnOnce(Token, LeaseHandle) -> Work,
        Work: Future<Output = Result<T, E>>,
    {
        let (token, lease) = (guard.token(), guard.handle());
        let outcome = match guard.run(self.start(&lease)).await?? {
            SlotStart::Over(run) => OnceOutcome::Over(run),
            SlotStart::Begun(attempt) => match guard.run(work(token, lease)).await? {
                Ok(output) => {
                    attempt.succeeded().await?;
                    OnceOutcome::Done(output)
                }
                Err(error) => {
                    if let Err(unwritten) = attempt.failed().await {
                        // The slot still counts as begun, and runs again just the same.
                        tracing::info!(error = %unwritten, "the failure of a slot is not written");
                    }
                    OnceOutcome::Failed(error)
                }
            },
        };
        // The outcome is in the store. A release that is not confirmed is tried again in the
        // background.
        if let Err(error) = guard.release().await {
            tracing::debug!(%error, "the lock of a slot was not released at once");
        }
        Ok(outcome)
    }

    /// The run of the slot, if the slot does not run again.
    fn over_in(&self, history: &History, slot: &str) -> Option<SlotRun> {
        let run = history.find(slot)?;
        let is_over = run.state == SlotState::Succeeded || run.attempts >= self.attempts_max;
        is_over.then(|| run.clone())
    }

    /// The stored text, and the slots that are kept.
    async fn read(&self) -> Result<(String, History)> {
        let text = self.swap("", "").await?;
        let mut history = History::parse(self.claim.key()?, &text)?;
        history.forget_old(self.now_ms());
        Ok((text, history))
    }

    async fn swap(&self, seen: &str, text: &str) -> Result<String> {
        self.claim.locks.client.open_engine()?.swap(self.claim.key()?, seen, text).await
    }

    fn now_ms(&self) -> u64 {
        self.claim.locks.client.runtime.wall_us() / 1000
    }

    fn contended(&self) -> Error {
        let key = self.claim.key().map_or_else(|_| String::new(), |key| format!("{key:?}"));
        Error::unavailable(format!(
            "other clients changed the slots of {key} each time this client wrote: try again"
        ))
        .with_reason(Reason::Contended)
    }
}
