//! The sweeper gives back what was dropped: it outlives the futures that were.
//!
//! It is one queue for each engine. A store that does not answer is asked by one leave at a time,
//! after pauses that grow to a second and that all tickets share; a store that answers, by a few at once. So
//! what an outage leaves behind costs neither the store nor this process more than it can bear.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, pending, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Notify;

use crate::background::admission::Slot;
use crate::background::backoff::backoff;
use crate::layers::AnyEngine;
use crate::lease::shared::SharedLease;
use crate::lease::span::shown;
use crate::wake::wake_all;
use crate::{
    BoxFuture, Engine as _, Error, ErrorKind, LeaveMode, LeaveOutcome, Liveness, Result, Runtime,
    Ticket, Time,
};

const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// A store that is back is found to be within this time: what was dropped while it was away keeps others out until then.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How many tickets are given back at a time.
const LEAVES_AT_ONCE_MAX: usize = 16;
/// How many tickets wait to be given back. Beyond that the oldest is left to end by itself, or, where tickets live as long as their
/// session, no new one is asked for.
const QUEUE_TICKETS_MAX: usize = 65_536;

/// What is known of a ticket that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinState {
    /// It was in the line: once it is out, it is out.
    InLine,
    /// A request to join may still be on its way: the store is asked until it is too late for that.
    Joining,
}

impl JoinState {
    /// Whether nothing of the ticket can be left after this answer.
    pub(crate) fn is_settled_by(self, left: &Result<LeaveOutcome>) -> bool {
        match left {
            Ok(LeaveOutcome::Holding | LeaveOutcome::Waiting) => true,
            Ok(LeaveOutcome::Absent | LeaveOutcome::Unsure) => self == Self::InLine,
            Ok(LeaveOutcome::Requested) | Err(_) => false,
        }
    }
}

pub(crate) struct Releaser {
    engine: AnyEngine,
    host: Arc<dyn Runtime>,
    /// A ticket that gives no sign of life ends by itself, so that sweeping may end too.
    leased: bool,
    quick: bool,
    /// How long one leave may take.
    patience: Duration,
    queue: Mutex<Queue>,
    /// Rung when a ticket comes into the queue.
    filled: Notify,
    /// Rung when nothing is being given back any more.
    swept: Notify,
}

/// The tickets on their way out.
#[derive(Default)]
struct Queue {
    /// By when they are to be asked for next, in nanoseconds of the boot clock, and a count.
    waiting: BTreeMap<(u64, u64), Sweep>,
    count: u64,
    /// How many leaves are on their way.
    under_way: usize,
    /// How many have failed since the last that was answered, and when the last of them did. Those that were on their way together
    /// failed once.
    failed: u32,
    failed_at: u64,
    /// How often the rest was left behind.
    generation: u64,
    /// The store is left alone until then.
    rests_until: u64,
    runs: bool,
    /// The session is over that every ticket lives by.
    closed: bool,
}

/// One ticket on its way out.
struct Sweep {
    ticket: Ticket,
    trace: JoinState,
    /// The lease of a guard that was dropped, and its token.
    held: Option<(Arc<SharedLease>, u64)>,
    /// It has ended by itself by then.
    ends: Time,
    /// How often the store has been asked.
    asked: u32,
    /// Keeps another ticket of its client out of the line, until the store has been asked once.
    slot: Option<Slot>,
}

impl Sweep {
    /// Reports the loss of a lock that was gone before it was given back. Only the first answer
    /// tells: a later one may be about a ticket that an earlier request took out.
    fn hear(&mut self, left: &Result<LeaveOutcome>) {
        if let Some((kept, token)) = self.held.take()
            && matches!(left, Ok(LeaveOutcome::Absent))
        {
            kept.was_gone_at_release(token);
        }
    }

    /// Whether the ticket has ended by itself. One that lives by a session never does: its join may
    /// have been carried out although nothing was answered.
    fn has_expired(&self, leased: bool, now: Time) -> bool {
        leased && now.has_reached(self.ends)
    }

    /// Whether this answer says that nothing of the ticket is left, and nothing can come any more.
    fn is_settled_by(&self, began: Time, left: &Result<LeaveOutcome>) -> bool {
        let too_late_to_come = began.has_reached(self.ends);
        self.trace.is_settled_by(left)
            || (too_late_to_come && matches!(left, Ok(LeaveOutcome::Absent | LeaveOutcome::Unsure)))
    }
}

/// What the queue wants done next.
enum Next {
    Ask(Box<Sweep>),
    Nap(Duration),
    Stop,
}

impl Releaser {
    pub(crate) fn new(engine: AnyEngine, host: Arc<dyn Runtime>) -> Arc<Self> {
        let profile = engine.guarantees();
        Arc::new(Self {
            engine,
            host,
            leased: matches!(profile.liveness, Liveness::Lease | Liveness::Process),
            quick: profile.quick,
            patience: profile.answers_within,
            queue: Mutex::default(),
            filled: Notify::new(),
            swept: Notify::new(),
        })
    }

    /// Takes a ticket out of its line: at once where that is a quick call, else in the background.
    /// If it was held until now and the store answers that it is not there, that is a loss.
    pub(crate) fn give_back(
        self: &Arc<Self>,
        ticket: Ticket,
        trace: JoinState,
        held: Option<(Arc<SharedLease>, u64)>,
        slot: Option<Slot>,
    ) {
        let now = self.host.now();
        let ends = now.plus(ticket.ttl);
        let mut sweep = Sweep { ticket, trace, held, ends, asked: 0, slot };
        if self.quick {
            let left = self.engine.leave(&sweep.ticket, LeaveMode::Now).now_or_never();
            if let Some(left) = left {
                sweep.hear(&left);
                if trace.is_settled_by(&left) {
                    return;
                }
            } else {
                // It may have been carried out: a later answer tells nothing of a loss.
                sweep.held = None;
            }
        }
        let mut queue = self.queue();
        if queue.closed {
            return;
        }
        queue.put(now.boot_ns, sweep);
        if queue.waiting.len() > QUEUE_TICKETS_MAX && self.leased {
            queue.waiting.pop_first();
        }
        let runs = std::mem::replace(&mut queue.runs, true);
        drop(queue);
        if runs {
            self.filled.notify_one();
        } else {
            let running = Running { sweeper: self.clone(), stopped: false };
            self.host.spawn(Box::pin(running.run()));
        }
    }

    /// Refuses one more ticket where each has to be given back, and too many wait for that already.
    pub(crate) fn room(&self) -> Result<()> {
        if self.leased || self.queue().len() < QUEUE_TICKETS_MAX {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "{QUEUE_TICKETS_MAX} tickets of this program wait to be given back to {}, which does not take them: no more are asked for until it does",
            self.engine.guarantees().store
        )))
    }

    /// Returns once nothing is being given back.
    pub(crate) async fn flush(&self) {
        loop {
            let mut swept = pin!(self.swept.notified());
            swept.as_mut().enable();
            if !self.queue().runs {
                return;
            }
            swept.await;
        }
    }

    /// Nothing more is given back: what is left goes with the sessions that it lives by.
    pub(crate) fn leave_the_rest(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        queue.waiting.clear();
        queue.generation += 1;
        drop(queue);
        self.filled.notify_one();
    }

    fn next(&self) -> Next {
        let now = self.host.now();
        let mut queue = self.queue();
        if queue.waiting.is_empty() && queue.under_way == 0 {
            queue.runs = false;
            wake_all(&self.swept);
            return Next::Stop;
        }
        let at_once = if queue.failed == 0 { LEAVES_AT_ONCE_MAX } else { 1 };
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

    /// Asks once for the ticket to leave. It goes back into the queue unless that settled it.
    async fn ask(self: Arc<Self>, mut sweep: Sweep) {
        let (began, generation) = (self.host.now(), self.queue().generation);
        let left = self.leave(&sweep.ticket).await;
        sweep.hear(&left);
        drop(sweep.slot.take());
        let now = self.host.now();
        let settled = sweep.is_settled_by(began, &left)
            || is_hopeless(&sweep.ticket, &left)
            || sweep.has_expired(self.leased, now);
        let pause = pause(sweep.asked, self.host.random());
        sweep.asked += 1;
        let mut queue = self.queue();
        queue.under_way -= 1;
        if left.is_ok() {
            queue.failed = 0;
            queue.rests_until = 0;
        } else {
            if queue.failed == 0 || began.boot_ns >= queue.failed_at {
                let rest = self::pause(queue.failed, self.host.random());
                queue.failed += 1;
                queue.failed_at = now.boot_ns;
                queue.rests_until = now.plus(rest).boot_ns;
            }
            queue.waiting.retain(|_, sweep| !sweep.has_expired(self.leased, now));
        }
        if !settled && queue.generation == generation {
            // A store that does not answer is left alone by all tickets together; only one that
            // says that this ticket has not come yet is left alone by this ticket.
            let due = if left.is_ok() { now.plus(pause).boot_ns } else { now.boot_ns };
            queue.put(due, sweep);
        }
    }

    async fn leave(&self, ticket: &Ticket) -> Result<LeaveOutcome> {
        let leave = AssertUnwindSafe(self.engine.leave(ticket, LeaveMode::Now)).catch_unwind();
        match select(pin!(leave), self.host.sleep(self.patience)).await {
            Either::Left((Ok(left), _)) => left,
            Either::Left((Err(_panic), _)) => {
                Err(Error::unavailable("the engine panicked while a ticket was given back"))
            }
            Either::Right(_) => Err(Error::unavailable(format!(
                "{} did not take back a ticket of {:?} within {}",
                self.engine.guarantees().store,
                ticket.key,
                shown(self.patience)
            ))),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// How many have to be given back, those included that a store is asked for now.
    fn len(&self) -> usize {
        self.waiting.len() + self.under_way
    }

    fn put(&mut self, due: u64, sweep: Sweep) {
        self.count += 1;
        self.waiting.insert((due, self.count), sweep);
    }
}

/// The sweeper's task, for as long as there is something in the queue.
struct Running {
    sweeper: Arc<Releaser>,
    stopped: bool,
}

impl Running {
    async fn run(mut self) {
        let sweeper = self.sweeper.clone();
        let mut leaves: FuturesUnordered<BoxFuture<()>> = FuturesUnordered::new();
        loop {
            match sweeper.next() {
                Next::Stop => {
                    self.stopped = true;
                    return;
                }
                Next::Ask(sweep) => leaves.push(Box::pin(sweeper.clone().ask(*sweep))),
                Next::Nap(nap) => {
                    let left = async {
                        if leaves.next().await.is_none() {
                            pending::<()>().await;
                        }
                    };
                    let filled = pin!(sweeper.filled.notified());
                    select(pin!(left), select(filled, sweeper.host.sleep(nap))).await;
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.stopped {
            // The runtime has ended, and nobody else will see to what is left.
            *self.sweeper.queue() = Queue::default();
            wake_all(&self.sweeper.swept);
        }
    }
}

/// Whether asking again would be answered the same way for ever.
fn is_hopeless(ticket: &Ticket, left: &Result<LeaveOutcome>) -> bool {
    let Err(error) = left else { return false };
    let hopeless = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported);
    if hopeless {
        tracing::warn!(key = %ticket.key, id = %ticket.id, %error, "a ticket cannot be given back");
    }
    hopeless
}

/// Grows with what has failed before, and differs from one client to the next.
fn pause(failed: u32, random: u64) -> Duration {
    backoff(PAUSE_FIRST, PAUSE_MAX, failed, random)
}
