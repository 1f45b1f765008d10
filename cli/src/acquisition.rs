//! An acquisition: the lock that a command requests, and the wait for it.

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::io;
use std::ops::Deref;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use tenure::engine::Backoff;
use tenure::guarantees::Liveness;
use tenure::inspect::{LineEntry, Note, TicketState};
use tenure::limits::TTL_DEFAULT;
use tenure::{
    Error, ErrorKind, Key, Leadership, LeaseHandle, Locks, MutexGuard, Permit, ReadGuard, Result,
};
use tenure_kit::duration::brief;

use crate::failure::{BUSY, Failure, LOST, UNREACHABLE, say};
use crate::progress::WaitDisplay;
use crate::retry_budget::{PAUSE_FIRST, PAUSE_MAX, RetryBudget};
use crate::screen::{printable, quoted};
use crate::store::SETTLE_MAX;
use crate::supervisor::signals::Signals;

/// Time limit of a release.
const RELEASE_MAX: Duration = Duration::from_secs(5);

/// Ignore rounding of the ttl below this.
const TTL_ROUNDED: Duration = Duration::from_millis(100);

/// How the key is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    Exclusive,
    Leader,
    Shared,
    /// This number of permits, and the number that exist.
    Permits(u32, u32),
}

impl LockMode {
    /// The share of a ticket in this mode.
    pub(crate) fn share(self) -> tenure::Result<tenure::inspect::Share> {
        match self {
            Self::Exclusive | Self::Leader => Ok(tenure::inspect::Share::WHOLE),
            Self::Shared => Ok(tenure::inspect::Share::READER),
            Self::Permits(take, of) => tenure::inspect::Share::new(take, of),
        }
    }
}

/// A request for a lock, with its options.
pub(crate) struct Acquisition<'a> {
    pub(crate) key: &'a str,
    pub(crate) mode: LockMode,
    pub(crate) ttl: Option<Duration>,
    pub(crate) budget: RetryBudget,
    pub(crate) note: Option<&'a str>,
    /// Locks that are held already. The wait ends with an error if one of them is lost.
    pub(crate) beside: Option<&'a LocksBeside>,
}

/// The losses of locks that are held while another one is taken. They are polled side by side, and
/// only those that wake: a claim may have thousands of locks.
#[derive(Default)]
pub(crate) struct LocksBeside(RefCell<FuturesUnordered<LocalBoxFuture<'static, Result<()>>>>);

impl LocksBeside {
    pub(crate) fn add(&self, held: &HeldLock) {
        let handle: LeaseHandle = (**held).clone();
        self.0.borrow().push(Box::pin(async move {
            handle.lost().await;
            handle.check()
        }));
    }

    /// Returns the error of a lock that is lost.
    fn poll_lost(&self, context: &mut Context<'_>) -> Option<Error> {
        match self.0.borrow_mut().poll_next_unpin(context) {
            Poll::Ready(Some(lost)) => lost.err(),
            Poll::Ready(None) | Poll::Pending => None,
        }
    }
}

/// A guard of any mode.
enum AnyGuard {
    Exclusive(MutexGuard),
    Leader(Leadership),
    Shared(ReadGuard),
    Permits(Permit),
}

impl AnyGuard {
    fn handle(&self) -> LeaseHandle {
        match self {
            Self::Exclusive(guard) => guard.handle(),
            Self::Leader(guard) => guard.handle(),
            Self::Shared(guard) => guard.handle(),
            Self::Permits(guard) => guard.handle(),
        }
    }

    async fn release(self) -> Result<()> {
        match self {
            Self::Exclusive(guard) => guard.release().await,
            Self::Leader(guard) => guard.release().await,
            Self::Shared(guard) => guard.release().await,
            Self::Permits(guard) => guard.release().await,
        }
    }
}

/// A lock that is held.
pub(crate) struct HeldLock {
    guard: AnyGuard,
    handle: LeaseHandle,
    /// The store's name for messages.
    store: String,
    /// The time at which the lock is free if the store confirms no release.
    free_at: &'static str,
}

impl Deref for HeldLock {
    type Target = LeaseHandle;

    fn deref(&self) -> &LeaseHandle {
        &self.handle
    }
}

impl HeldLock {
    /// The store's name for messages.
    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// The numbers of the held permits, with spaces between them, or an empty text if they have
    /// none. `None` for other locks.
    pub(crate) fn permits(&self, signals: &mut Signals) -> Result<Option<String>, Failure> {
        let AnyGuard::Permits(permit) = &self.guard else { return Ok(None) };
        let numbers = match signals.until(permit.numbers(), |_| None)? {
            Ok(numbers) => numbers,
            Err(signal) => return Err(Failure::asked(signal)),
        };
        match numbers {
            Ok(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
                Ok(Some(numbers.join(" ")))
            }
            Err(error) if error.is_lost() => Err(error.into()),
            Err(error) => {
                if !matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Invalid) {
                    say(&format!("TENURE_PERMIT is empty: {error}"));
                }
                Ok(Some(String::new()))
            }
        }
    }

    /// Gives the numbers of the permits back. If that fails, the next holder removes them.
    pub(crate) fn return_permits(&self, signals: &mut Signals) {
        let AnyGuard::Permits(permit) = &self.guard else { return };
        let _ = signals.within(SETTLE_MAX, permit.return_numbers()); // they are gone with the ticket
    }

    /// Releases the lock. Fails if it was lost before.
    pub(crate) fn release(self, signals: &mut Signals) -> Result<(), Failure> {
        let key = quoted(self.key().as_str());
        let trouble = match signals.within(RELEASE_MAX, self.guard.release())? {
            Ok(Some(Err(error))) if error.kind() == ErrorKind::Lost => {
                return Err(Failure::new(
                    LOST,
                    format!("the command ended, and may have worked without its lock: {error}"),
                ));
            }
            Ok(Some(Err(error))) => error.to_string(),
            Ok(None) => format!("{} does not answer", self.store),
            // Released, or a signal asked this process to end.
            Ok(Some(Ok(()))) | Err(_) => return Ok(()),
        };
        say(&format!("{key}: {trouble}; the lock is free once {}", self.free_at));
        Ok(())
    }

    /// Releases the lock, and returns an error if it was lost before.
    pub(crate) async fn give_back(self) -> Result<()> {
        self.guard.release().await
    }

    /// Releases a lost lock: if the store still has its ticket, the next waiter need not wait for
    /// the end of its lease.
    pub(crate) fn let_go(self, signals: &mut Signals) {
        let _ = signals.within(SETTLE_MAX, self.guard.release()); // the loss was reported already
    }
}

/// The end of one stay in the line.
enum Stay {
    Held(HeldLock),
    /// The store has lost the line.
    Forgotten,
}

impl Acquisition<'_> {
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.unwrap_or(TTL_DEFAULT)
    }

    /// Waits for the lock; leaves the line at a signal or a time-out. If the store has lost the
    /// line, joins it again after a pause that grows.
    pub(crate) fn acquire(
        &self,
        signals: &mut Signals,
        locks: &Locks,
    ) -> Result<HeldLock, Failure> {
        let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_MAX);
        let mut reported = self.budget.is_quiet();
        loop {
            match self.stay(signals, locks)? {
                Stay::Held(held) => return Ok(held),
                Stay::Forgotten => {}
            }
            if !reported {
                reported = true;
                let (key, store) = (quoted(self.key), &locks.guarantees().store);
                say(&format!("{store} has lost the line of {key}: joining it again"));
            }
            if let Err(signal) = signals.within(backoff.pause(), pending::<()>())? {
                return Err(Failure::asked(signal));
            }
        }
    }

    /// Joins the line once, and waits in it.
    fn stay(&self, signals: &mut Signals, locks: &Locks) -> Result<Stay, Failure> {
        let left = self.budget.left();
        let mut display = WaitDisplay::new(locks, self.key, self.budget.is_quiet());
        let outcome = signals.until(self.lock_beside(locks, left), |waker| display.update(waker));
        drop(display);
        let failure = match outcome? {
            Ok(Ok(Some(held))) => {
                self.report_longer_lease(&held);
                return Ok(Stay::Held(held));
            }
            Ok(Ok(None)) => self.busy(signals, locks, left)?,
            Ok(Err(error)) if error.is_retryable() && left.is_some() => {
                return self.unanswered(signals, locks, error);
            }
            Ok(Err(error)) if self.is_forgotten(signals, locks, &error)? => {
                return Ok(Stay::Forgotten);
            }
            Ok(Err(error)) => self.refused(locks, error),
            Err(signal) => Failure::asked(signal),
        };
        if failure.code() == UNREACHABLE {
            return Err(failure);
        }
        // The ticket is leaving already: wait until it is out, unless the store is silent.
        let _ = signals.within(SETTLE_MAX, locks.flush())?; // at a second signal, do not wait
        Err(failure)
    }

    /// Whether the store has lost its data and with it this ticket. A break removes one ticket, and
    /// those with smaller numbers stay.
    fn is_forgotten(
        &self,
        signals: &mut Signals,
        locks: &Locks,
        error: &Error,
    ) -> io::Result<bool> {
        let Some(number) = error.number_in_line() else { return Ok(false) };
        let line = signals.within(SETTLE_MAX, locks.line(self.key))?;
        Ok(matches!(line, Ok(Some(Ok(line))) if line.iter().all(|entry| entry.number > number)))
    }

    /// Warns if the store grants a longer lease than the requested ttl: the user expects that the
    /// lock is free that soon after a crash.
    fn report_longer_lease(&self, held: &HeldLock) {
        let (Some(requested), Some(life)) = (self.ttl, held.life()) else { return };
        if life < requested + TTL_ROUNDED || self.budget.is_quiet() {
            return;
        }
        // Rounded up to seconds: a part of the lease is over already.
        let life = Duration::from_secs(life.as_secs() + u64::from(life.subsec_nanos() > 0));
        let (key, store, life) = (quoted(self.key), &held.store, brief(life));
        say(&format!(
            "after a crash {key} stays locked for about {life}, and not for {requested:?}: {store}, \
             or an option of its URL, allows no shorter ttl"
        ));
    }

    /// Checks the arguments before the store is used.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        Key::new(self.key)?;
        Note::new(self.note.unwrap_or_default())?;
        self.mode.share()?;
        Ok(())
    }

    /// Asks the store once more while the ticket is leaving: there may be a more exact error than
    /// the time-out, for example which process keeps a file locked.
    fn unanswered<T>(
        &self,
        signals: &mut Signals,
        locks: &Locks,
        error: Error,
    ) -> Result<T, Failure> {
        let mut reason = error;
        // At a second signal, do not wait.
        let _ = signals.within(SETTLE_MAX, async {
            match locks.line(self.key).await {
                Ok(_) => locks.flush().await,
                Err(error) => reason = error,
            }
        })?;
        Err(reason.into())
    }

    /// Waits for the lock, as long as all locks beside it are held.
    async fn lock_beside(&self, locks: &Locks, wait: Option<Duration>) -> Result<Option<HeldLock>> {
        let mut work = Box::pin(self.lock(locks, wait));
        poll_fn(|context| match self.beside.and_then(|beside| beside.poll_lost(context)) {
            Some(lost) => Poll::Ready(Err(lost)),
            None => work.as_mut().poll(context),
        })
        .await
    }

    async fn lock(&self, locks: &Locks, wait: Option<Duration>) -> Result<Option<HeldLock>> {
        let (key, ttl) = (self.key, self.ttl());
        let note = self.note.unwrap_or_default();
        let guard = match self.mode {
            LockMode::Exclusive => {
                let mutex = locks.mutex(key).ttl(ttl).note(note);
                let guard = match wait {
                    None => Some(mutex.lock().await?),
                    Some(time) => mutex.try_lock_for(time).await?,
                };
                guard.map(AnyGuard::Exclusive)
            }
            LockMode::Leader => {
                let leadership = locks.election(key).ttl(ttl).note(note).campaign().await?;
                Some(AnyGuard::Leader(leadership))
            }
            LockMode::Shared => {
                let lock = locks.rwlock(key).ttl(ttl).note(note);
                let guard = match wait {
                    None => Some(lock.read().await?),
                    Some(time) => lock.try_read_for(time).await?,
                };
                guard.map(AnyGuard::Shared)
            }
            LockMode::Permits(take, of) => {
                let semaphore = locks.semaphore(key, of).ttl(ttl).note(note);
                let permit = match wait {
                    None => Some(semaphore.acquire_many(take).await?),
                    Some(time) => semaphore.try_acquire_many_for(take, time).await?,
                };
                permit.map(AnyGuard::Permits)
            }
        };
        let held = |guard: AnyGuard| {
            let (handle, store) = (guard.handle(), locks.guarantees().store.clone());
            let free_at = match locks.guarantees().liveness {
                Liveness::Kernel => "this process has ended",
                _ => "its lease in the store has ended",
            };
            HeldLock { guard, handle, store, free_at }
        };
        Ok(guard.map(held))
    }

    /// Explains a time-out: who holds the lock, or that the store did not answer.
    fn busy(
        &self,
        signals: &mut Signals,
        locks: &Locks,
        waited: Option<Duration>,
    ) -> io::Result<Failure> {
        let look = signals.within(SETTLE_MAX, locks.line(self.key))?;
        let waited = waited.filter(|waited| !waited.is_zero());
        let line = match look {
            Ok(Some(Ok(line))) => line,
            Ok(Some(Err(error))) if waited.is_some() && error.is_retryable() => {
                return Ok(error.into());
            }
            Ok(None) if let Some(wait) = self.budget.wait() => {
                let (key, waited) = (quoted(self.key), brief(wait));
                let store = &locks.guarantees().store;
                let sentence = format!("waited {waited} for {key}: {store} does not answer");
                return Ok(Failure::new(UNREACHABLE, sentence));
            }
            _ => Vec::new(),
        };
        let by = self.in_the_way(&line);
        let key = quoted(self.key);
        let sentence = match self.budget.wait() {
            Some(wait) => format!("{key} is busy{by}: timed out after {}", brief(wait)),
            None => format!("{key} is busy{by}"),
        };
        Ok(Failure::new(BUSY, sentence))
    }

    /// Names the first holder, and the first waiter if this share would fit beside the holders.
    fn in_the_way(&self, line: &[LineEntry]) -> String {
        let of = |state| line.iter().filter(move |entry| entry.state == state);
        let taken: u64 =
            of(TicketState::Holding).map(|holder| u64::from(holder.share.take())).sum();
        let fits = self.mode.share().is_ok_and(|share| {
            taken > 0 && taken + u64::from(share.take()) <= u64::from(share.of())
        });
        let first = |state| of(state).next().map(|entry| printable(&entry.owner));
        match (first(TicketState::Holding), first(TicketState::Waiting).filter(|_| fits)) {
            (Some(holder), Some(waiter)) => {
                format!(", held by {holder}, and {waiter} waits ahead for more than is free")
            }
            (Some(holder), None) => format!(", held by {holder}"),
            (None, _) => String::new(),
        }
    }

    /// Explains a refusal. A broken waiter gets [`BUSY`]: it has lost no lock.
    fn refused(&self, locks: &Locks, error: Error) -> Failure {
        if error.kind() != ErrorKind::Lost {
            return error.into();
        }
        let key = quoted(self.key);
        let sentence = if locks.guarantees().liveness == Liveness::Kernel {
            format!("a break removed this ticket from the line of {key}")
        } else {
            format!(
                "this ticket was removed from the line of {key} by a break, by an operator of the \
                 store, or by a store that lost its data"
            )
        };
        Failure::new(BUSY, sentence)
    }
}
