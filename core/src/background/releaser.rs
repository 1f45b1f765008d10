//! The releaser removes the tickets of dropped guards and waiters from their lines.
//!
//! It has one queue for each engine. If the store answers, it sends [`LEAVES_AT_ONCE_MAX`] requests
//! at a time. If not, it sends one at a time, after [`PAUSES`] that all
//! tickets share.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, pending, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Notify;

use crate::background::admission::Slot;
use crate::background::backoff::Backoff;
use crate::contract::any::AnyEngine;
use crate::lease::figures::PendingRelease;
use crate::lease::shared::SharedLease;
use crate::lease::span::shown;
use crate::sync::Mutex;
use crate::wake::{contain_panic, wake_all};
use crate::{
    BoxFuture, Engine as _, Error, ErrorKind, LeaveMode, LeaveOutcome, Liveness, Result, Runtime,
    Ticket, Time,
};

/// Pauses after failures. A dropped ticket keeps the lock for at most the longest of them after an
/// outage.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
/// Maximum leaves in flight.
const LEAVES_AT_ONCE_MAX: usize = 16;
/// Maximum tickets in the queue. Beyond it the oldest is dropped, because it expires by itself.
/// With sessions, tickets do not expire, and new locks are refused instead.
const QUEUE_TICKETS_MAX: usize = 65_536;

/// Whether the join of a dropped ticket was answered.
///
/// ```
/// use tenure_core::LeaveOutcome;
/// use tenure_core::toolbox::JoinState;
///
/// assert!(JoinState::InLine.is_settled_by(&Ok(LeaveOutcome::Absent)));
/// assert!(!JoinState::Joining.is_settled_by(&Ok(LeaveOutcome::Absent)), "it may still come");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinState {
    /// The ticket was in the line: after a leave it is gone for good.
    InLine,
    /// A join may be in flight: leaves are repeated until one finds the ticket, or the join is too
    /// late to happen.
    Joining,
    /// Several joins were sent, and not all were answered: leaves are repeated until the joins are
    /// too late to happen, because another one may come after the ticket was found.
    Repeated,
}

impl JoinState {
    /// Whether the ticket is gone for good after this answer.
    pub fn is_settled_by(self, left: &Result<LeaveOutcome>) -> bool {
        match left {
            Ok(LeaveOutcome::Holding | LeaveOutcome::Waiting) => self != Self::Repeated,
            Ok(LeaveOutcome::Absent | LeaveOutcome::Unsure) => self == Self::InLine,
            Ok(LeaveOutcome::Requested) | Err(_) => false,
        }
    }
}

/// Removes tickets from their lines in the background. One for each store.
///
/// ```
/// use std::sync::Arc;
///
/// use tenure_core::layers::AnyEngine;
/// use tenure_core::toolbox::{JoinState, Releaser};
/// use tenure_core::{BackgroundRuntime, Engine, Key, Memory, Share, Ticket, WaitMode};
///
/// # tenure_core::blocking::block_on(async {
/// let store = AnyEngine::new(Memory::new());
/// let releaser = Releaser::new(store.clone(), Arc::new(BackgroundRuntime::for_timers()));
/// let ticket = Ticket::new(Key::new("invoices/42")?, Share::WHOLE);
/// store.join(&ticket, WaitMode::Wait).await?;
/// releaser.release(ticket, JoinState::InLine);
/// releaser.flush().await;
/// assert!(store.line(&Key::new("invoices/42")?).await?.is_empty());
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
pub struct Releaser {
    engine: AnyEngine,
    runtime: Arc<dyn Runtime>,
    /// Tickets expire by themselves, so leaves may stop.
    leased: bool,
    quick: bool,
    name: &'static str,
    /// Maximum time of one leave.
    patience: Duration,
    queue: Mutex<Queue>,
    /// Notified when a ticket enters the queue.
    filled: Notify,
    /// Notified when the queue is empty.
    swept: Notify,
}

/// The tickets to remove. A [`Sweep`] is dropped outside the queue's lock, because its drop calls
/// the metrics recorder of the program.
#[derive(Default)]
struct Queue {
    /// By the time of the next leave, in nanoseconds of the boot clock, and a count.
    waiting: BTreeMap<(u64, u64), Sweep>,
    count: u64,
    /// Number of leaves in flight.
    under_way: usize,
    /// The next pause, while the store does not answer, and the time of the last failure. Leaves
    /// that were in flight together count as one failure.
    failing: Option<Backoff>,
    failed_at: u64,
    /// Number of times that the queue was cleared.
    generation: u64,
    /// No leave is sent before this time.
    rests_until: u64,
    runs: bool,
    /// The session of all tickets is over.
    closed: bool,
}

/// One ticket to remove.
struct Sweep {
    ticket: Ticket,
    join: JoinState,
    /// The lease of a guard that was dropped, and its token.
    held: Option<(Arc<SharedLease>, u64)>,
    /// When the ticket has expired by itself.
    ends: Time,
    /// The pause before the next leave.
    pauses: Backoff,
    /// Its place in the line, which is freed after the first leave.
    slot: Option<Slot>,
    /// Counts it while it is in the queue or in flight.
    pending: Option<PendingRelease>,
}

impl Sweep {
    /// Reports the loss of a lock that was gone before its release. Only the first answer counts:
    /// an earlier leave may have removed the ticket before a later answer.
    fn apply(&mut self, left: &Result<LeaveOutcome>) {
        if let Some((shared, token)) = self.held.take()
            && matches!(left, Ok(LeaveOutcome::Absent))
        {
            shared.was_gone_at_release(token);
        }
    }

    /// Whether the ticket has expired by itself. Tickets of a session never expire.
    fn has_expired(&self, leased: bool, now: Time) -> bool {
        leased && now.has_reached(self.ends)
    }

    /// Whether the ticket is gone after this answer, and no join of it can still happen.
    fn is_settled_by(&self, began: Time, left: &Result<LeaveOutcome>) -> bool {
        let too_late_to_come = began.has_reached(self.ends);
        self.join.is_settled_by(left)
            || (too_late_to_come && matches!(left, Ok(LeaveOutcome::Absent | LeaveOutcome::Unsure)))
    }
}

/// The next step of the queue.
enum Next {
    Ask(Box<Sweep>),
    Nap(Duration),
    Stop,
}

impl Releaser {
    /// A releaser for the tickets in this store.
    pub fn new(engine: AnyEngine, runtime: Arc<dyn Runtime>) -> Arc<Self> {
        let guarantees = engine.guarantees();
        Arc::new(Self {
            engine,
            runtime,
            leased: matches!(guarantees.liveness, Liveness::Lease | Liveness::Process),
            quick: guarantees.quick,
            name: guarantees.name,
            patience: guarantees.answers_within,
            queue: Mutex::default(),
            filled: Notify::new(),
            swept: Notify::new(),
        })
    }

    /// Removes a ticket from its line, and repeats that until the store has answered or the ticket
    /// has expired.
    pub fn release(self: &Arc<Self>, ticket: Ticket, joined: JoinState) {
        self.give_back(ticket, joined, None, None);
    }

    /// Removes a ticket from its line: at once if the engine is quick, else in the background. A
    /// held ticket that the store does not know is reported as lost.
    pub(crate) fn give_back(
        self: &Arc<Self>,
        ticket: Ticket,
        join: JoinState,
        held: Option<(Arc<SharedLease>, u64)>,
        slot: Option<Slot>,
    ) {
        let now = self.runtime.now();
        let ends = now.plus(ticket.ttl);
        let mut sweep = Sweep { ticket, join, held, ends, pauses: PAUSES, slot, pending: None };
        if self.quick {
            let left = self.engine.leave(&sweep.ticket, LeaveMode::Now).now_or_never();
            if let Some(left) = left {
                sweep.apply(&left);
                if join.is_settled_by(&left) {
                    return;
                }
            } else {
                // The leave may have happened, so a later answer does not prove a loss.
                sweep.held = None;
            }
        }
        sweep.pending = Some(PendingRelease::new(self.name));
        let mut queue = self.queue();
        if queue.closed {
            return;
        }
        queue.put(now.boot_ns, sweep);
        let is_full = queue.waiting.len() > QUEUE_TICKETS_MAX && self.leased;
        let oldest = if is_full { queue.waiting.pop_first() } else { None };
        let runs = std::mem::replace(&mut queue.runs, true);
        drop(queue);
        drop(oldest);
        if runs {
            self.filled.notify_one();
        } else {
            let running = Running { releaser: self.clone(), stopped: false };
            self.runtime.spawn(Box::pin(running.run()));
        }
    }

    /// Refuses a new ticket if the queue is full and tickets do not expire.
    pub(crate) fn room(&self) -> Result<()> {
        if self.leased || self.queue().len() < QUEUE_TICKETS_MAX {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "{} does not answer, and {QUEUE_TICKETS_MAX} dropped tickets of this program wait for their release: no more locks are taken until it answers",
            self.engine.guarantees().store
        )))
    }

    /// Waits until the queue is empty.
    pub async fn flush(&self) {
        loop {
            let mut swept = pin!(self.swept.notified());
            swept.as_mut().enable();
            if !self.queue().runs {
                return;
            }
            swept.await;
        }
    }

    /// Clears the queue, because the end of the session removes its tickets.
    pub(crate) fn leave_the_rest(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        let rest = std::mem::take(&mut queue.waiting);
        queue.generation += 1;
        drop(queue);
        drop(rest);
        self.filled.notify_one();
    }

    fn next(&self) -> Next {
        let now = self.runtime.now();
        let mut queue = self.queue();
        if queue.waiting.is_empty() && queue.under_way == 0 {
            queue.runs = false;
            wake_all(&self.swept);
            return Next::Stop;
        }
        let at_once = if queue.failing.is_none() { LEAVES_AT_ONCE_MAX } else { 1 };
        let due = match queue.waiting.first_key_value() {
            Some(((due, _), _)) if queue.under_way < at_once => (*due).max(queue.rests_until),
            _ => u64::MAX,
        };
        if due > now.boot_ns {
            return Next::Nap(Duration::from_nanos(due - now.boot_ns));
        }
        let (_, sweep) = queue.waiting.pop_first().expect("the queue was just found not empty");
        queue.under_way += 1;
        Next::Ask(Box::new(sweep))
    }

    /// Sends one leave. The ticket goes back into the queue if it may still be in the line.
    async fn ask(self: Arc<Self>, mut sweep: Sweep) {
        let (began, generation) = (self.runtime.now(), self.queue().generation);
        let left = self.leave(&sweep.ticket).await;
        sweep.apply(&left);
        drop(sweep.slot.take());
        let now = self.runtime.now();
        let settled = sweep.is_settled_by(began, &left)
            || fails_for_good(&sweep.ticket, &left)
            || sweep.has_expired(self.leased, now);
        let pause = sweep.pauses.next(self.runtime.random());
        let _expired: BTreeMap<_, _>;
        let mut queue = self.queue();
        queue.under_way -= 1;
        if left.is_ok() {
            queue.failing = None;
            queue.rests_until = 0;
        } else {
            if queue.failing.is_none() || began.boot_ns >= queue.failed_at {
                let pause = queue.failing.get_or_insert(PAUSES).next(self.runtime.random());
                queue.failed_at = now.boot_ns;
                queue.rests_until = now.plus(pause).boot_ns;
            }
            (_expired, queue.waiting) = std::mem::take(&mut queue.waiting)
                .into_iter()
                .partition(|(_, sweep)| sweep.has_expired(self.leased, now));
        }
        if !settled && queue.generation == generation {
            // If the store did not answer, the whole queue backs off. If it answered that the
            // ticket is not there yet, only this ticket is delayed.
            let due = if left.is_ok() { now.plus(pause).boot_ns } else { now.boot_ns };
            queue.put(due, sweep);
        }
    }

    async fn leave(&self, ticket: &Ticket) -> Result<LeaveOutcome> {
        let leave = AssertUnwindSafe(self.engine.leave(ticket, LeaveMode::Now)).catch_unwind();
        match select(pin!(leave), self.runtime.sleep(self.patience)).await {
            Either::Left((Ok(left), _)) => left,
            Either::Left((Err(_panic), _)) => {
                Err(Error::unavailable("the engine panicked while it released a ticket"))
            }
            Either::Right(_) => Err(Error::unavailable(format!(
                "{} did not release a ticket of {:?} within {}",
                self.engine.guarantees().store,
                ticket.key,
                shown(self.patience)
            ))),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

impl Queue {
    /// Number of tickets to remove, including those in flight.
    fn len(&self) -> usize {
        self.waiting.len() + self.under_way
    }

    fn put(&mut self, due: u64, sweep: Sweep) {
        self.count += 1;
        self.waiting.insert((due, self.count), sweep);
    }
}

/// The releaser's task, which ends when the queue is empty.
struct Running {
    releaser: Arc<Releaser>,
    stopped: bool,
}

impl Running {
    async fn run(mut self) {
        let releaser = self.releaser.clone();
        let mut leaves: FuturesUnordered<BoxFuture<()>> = FuturesUnordered::new();
        loop {
            match releaser.next() {
                Next::Stop => {
                    self.stopped = true;
                    return;
                }
                Next::Ask(sweep) => leaves.push(Box::pin(releaser.clone().ask(*sweep))),
                Next::Nap(nap) => {
                    let left = async {
                        if leaves.next().await.is_none() {
                            pending::<()>().await;
                        }
                    };
                    let filled = pin!(releaser.filled.notified());
                    select(pin!(left), select(filled, releaser.runtime.sleep(nap))).await;
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.stopped {
            // The runtime has ended, so no leave can be sent any more.
            let _rest = std::mem::take(&mut *self.releaser.queue());
            wake_all(&self.releaser.swept);
        }
    }
}

/// Whether every further leave would fail in the same way.
fn fails_for_good(ticket: &Ticket, left: &Result<LeaveOutcome>) -> bool {
    let Err(error) = left else { return false };
    let reason_to_give_up = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported);
    if reason_to_give_up {
        let (key, id) = (&ticket.key, ticket.id);
        contain_panic(|| tracing::warn!(%key, %id, %error, "a ticket cannot be released"));
    }
    reason_to_give_up
}

impl fmt::Debug for Releaser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Releaser").finish_non_exhaustive()
    }
}
