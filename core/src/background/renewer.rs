//! Renews all leases of one engine in one task, and marks each lease as lost when it expires.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Notify;

use crate::contract::any::AnyEngine;
use crate::lease::shared::{SharedLease, Slot};
use crate::lease::span::shown;
use crate::lease::state::State;
use crate::lease::telemetry::Renewal;
use crate::sync::Mutex;
use crate::{BoxFuture, Engine as _, Error, Runtime, Time};

/// Maximum sleep of the task, because a timer may stop while the machine sleeps.
const NAP_MAX: Duration = Duration::from_secs(1);

/// Maximum renewals in flight. The time limit of a renewal begins when it is sent, so leases that
/// are due together do not time out in a queue.
const UNDER_WAY_MAX: usize = 512;

/// Renewal periods for which a late answer is awaited.
const LATE_BEATS: u32 = 3;

pub(crate) struct Renewer {
    engine: AnyEngine,
    runtime: Arc<dyn Runtime>,
    queue: Mutex<RenewalQueue>,
    /// Notified when a lease is due sooner than the task expects, and when the task has to stop.
    sooner: Notify,
}

#[derive(Default)]
struct RenewalQueue {
    entries: BTreeMap<Slot, Arc<SharedLease>>,
    count: u64,
    pace: MergedClock,
    /// When the task wakes next. `None`: it does not run.
    wakes: Option<u64>,
    /// The locks were closed: every lease is lost, and no other is accepted.
    ended: bool,
    /// The locks are gone: the task stops.
    closed: bool,
}

/// One scale for both clocks, on which what is due by *either* of them has come: each step forward
/// is the larger of the two clocks' own. So no clock that is slewed makes the keeper look too late;
/// that it may look too soon costs a look.
#[derive(Default)]
struct MergedClock {
    seen: Option<Time>,
    passed_ns: u64,
}

impl MergedClock {
    fn read(&mut self, now: Time) -> u64 {
        let seen = self.seen.unwrap_or(now);
        let passed = u64::try_from(seen.until_last(now).as_nanos()).unwrap_or(u64::MAX);
        self.passed_ns = self.passed_ns.saturating_add(passed);
        self.seen = Some(seen.max(now));
        self.passed_ns
    }

    /// A moment on this scale.
    fn when(&mut self, now: Time, moment: Time) -> u64 {
        let until = u64::try_from(now.until(moment).as_nanos()).unwrap_or(u64::MAX);
        self.read(now).saturating_add(until)
    }
}

impl Renewer {
    pub(crate) fn new(engine: AnyEngine, runtime: Arc<dyn Runtime>) -> Arc<Self> {
        Arc::new(Self { engine, runtime, queue: Mutex::default(), sooner: Notify::new() })
    }

    /// Renews a lease from now on.
    pub(crate) fn keep(self: &Arc<Self>, shared: &Arc<SharedLease>) {
        let now = self.runtime.now();
        let Some(next) = shared.with(|lease| lease.next(now)) else { return };
        let mut queue = self.queue();
        if queue.ended {
            drop(queue);
            shared.with(|lease| lease.close(now));
            return;
        }
        let starts = queue.wakes.is_none();
        let sooner = queue.write(shared, now, next);
        drop(queue);
        if starts {
            let renewer = self.clone();
            self.runtime.spawn(Box::pin(async move { renewer.run().await }));
        } else if sooner {
            self.sooner.notify_one();
        }
    }

    /// Stops renewing a lease.
    pub(crate) fn forget(&self, shared: &SharedLease) {
        let mut queue = self.queue();
        if let Some(slot) = shared.move_to(None) {
            queue.entries.remove(&slot);
        }
    }

    /// Renews a lease now.
    pub(crate) async fn renew(&self, shared: &SharedLease) -> State {
        let ticket = shared.ticket();
        let sent = self.runtime.now();
        // A panic of the engine must not end the renewals of other leases.
        let answer = AssertUnwindSafe(self.engine.renew(&ticket)).catch_unwind().await;
        let answer = answer.unwrap_or_else(|_panic| {
            Err(Error::unavailable(format!(
                "the engine panicked while it renewed {:?}",
                shared.key
            )))
        });
        Renewal::of(&answer).count();
        shared.apply(sent, self.runtime.now(), answer)
    }

    /// Marks every lease as lost, and accepts no others. Holders and waiters are woken at once.
    pub(crate) fn end(&self) {
        let now = self.runtime.now();
        let entries = {
            let mut queue = self.queue();
            queue.ended = true;
            std::mem::take(&mut queue.entries)
        };
        for shared in entries.into_values() {
            shared.move_to(None);
            shared.with(|lease| lease.close(now));
        }
    }

    /// Whether the locks were closed.
    pub(crate) fn has_ended(&self) -> bool {
        self.queue().ended
    }

    /// Stops the task, because the locks were dropped.
    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.sooner.notify_one();
    }

    async fn run(self: Arc<Self>) {
        let mut renewals = Renewals::default();
        while let Some(nap) = self.next_nap() {
            let sooner = pin!(self.sooner.notified());
            let wake = select(sooner, self.runtime.sleep(nap));
            let woken = matches!(select(wake, pin!(renewals.next())).await, Either::Left(_));
            if woken {
                self.look(&mut renewals);
            }
        }
    }

    /// The time until a lease is due. `None`: the task has to stop.
    fn next_nap(&self) -> Option<Duration> {
        let now = self.runtime.now();
        let mut queue = self.queue();
        if queue.closed {
            return None;
        }
        let now = queue.pace.read(now);
        let planned = queue.wakes.filter(|wakes| *wakes > now).unwrap_or(u64::MAX);
        let due =
            queue.entries.first_key_value().map_or(u64::MAX, |((due, _), _)| *due).min(planned);
        queue.wakes = Some(due);
        let nap = Duration::from_nanos(due.saturating_sub(now));
        Some(if queue.entries.is_empty() { nap } else { nap.min(NAP_MAX) })
    }

    /// Handles every lease that is due.
    fn look(self: &Arc<Self>, renewals: &mut Renewals) {
        let now = self.runtime.now();
        let due = self.queue().due(now);
        for shared in due {
            let (state, due) = shared.with(|lease| {
                let (state, due) = (lease.judge(now), lease.is_due(now));
                if due {
                    lease.begin_renewal();
                }
                (state, due)
            });
            if state == State::Waiting {
                shared.notify();
            }
            self.reschedule(&shared);
            if due {
                renewals.begin(Box::pin(self.clone().attempt(shared)));
            }
        }
    }

    /// One renewal, which does not block others. A late answer still counts from the moment of its
    /// request, so it is applied for as long as the ticket can live.
    async fn attempt(self: Arc<Self>, shared: Arc<SharedLease>) {
        if shared.with(|lease| lease.is_over()) {
            return;
        }
        let every = shared.with(|lease| lease.schedule().every);
        let patience = every / 4;
        let mut renewal: BoxFuture<()> = {
            let (renewer, shared) = (self.clone(), shared.clone());
            Box::pin(async move {
                renewer.renew(&shared).await;
                renewer.reschedule(&shared);
            })
        };
        loop {
            let asked = self.runtime.now();
            match select(&mut renewal, self.runtime.sleep(patience)).await {
                Either::Left(_) => return,
                // The lease is over, so the answer is not needed.
                Either::Right(_) if shared.with(|lease| lease.is_over()) => return,
                // This process was suspended: the store's answer may have arrived already.
                Either::Right(_) if self.runtime.now().has_reached(asked.plus(patience * 2)) => {}
                Either::Right(_) => break,
            }
        }
        Renewal::Failed.count();
        let late = self.runtime.sleep(every * LATE_BEATS);
        self.runtime.spawn(Box::pin(async move { drop(select(renewal, late).await) }));
        let now = self.runtime.now();
        let error = Error::unavailable(format!(
            "{} did not answer a renewal of {:?} within {}: is it overloaded or cut off?",
            self.engine.guarantees().store,
            shared.key,
            shown(Duration::from_millis(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX)))
        ));
        shared.apply(now, now, Err(error));
        self.reschedule(&shared);
    }

    /// Computes when the lease is due next, after a change.
    pub(crate) fn reschedule(&self, shared: &SharedLease) {
        let now = self.runtime.now();
        let mut queue = self.queue();
        // Of two concurrent calls, the later one sees the state of the earlier one.
        let next = shared.with(|lease| lease.next(now));
        let Some(slot) = shared.move_to(None) else { return };
        if let (Some(shared), Some(next)) = (queue.entries.remove(&slot), next)
            && queue.write(&shared, now, next)
        {
            self.sooner.notify_one();
        }
    }

    fn queue(&self) -> MutexGuard<'_, RenewalQueue> {
        self.queue.lock()
    }
}

/// The renewals in flight, and those that wait for a place.
#[derive(Default)]
struct Renewals {
    under_way: FuturesUnordered<BoxFuture<()>>,
    /// In the order of their due times.
    waiting: VecDeque<BoxFuture<()>>,
}

impl Renewals {
    fn begin(&mut self, mut attempt: BoxFuture<()>) {
        if self.under_way.len() >= UNDER_WAY_MAX {
            self.waiting.push_back(attempt);
        } else if (&mut attempt).now_or_never().is_none() {
            // A quick engine has answered at once.
            self.under_way.push(attempt);
        }
    }

    /// Waits until one has ended, and starts the next.
    async fn next(&mut self) {
        if self.under_way.next().await.is_none() {
            std::future::pending::<()>().await;
        }
        while self.under_way.len() < UNDER_WAY_MAX
            && let Some(attempt) = self.waiting.pop_front()
        {
            self.begin(attempt);
        }
    }
}

impl RenewalQueue {
    fn due(&mut self, now: Time) -> Vec<Arc<SharedLease>> {
        let due = self.entries.range(..=(self.pace.read(now), u64::MAX));
        due.map(|(_, shared)| shared.clone()).collect()
    }

    /// Returns whether the task must be woken, because this lease is due before the task wakes.
    fn write(&mut self, shared: &Arc<SharedLease>, now: Time, next: Time) -> bool {
        self.count += 1;
        let slot = (self.pace.when(now, next), self.count);
        shared.move_to(Some(slot));
        self.entries.insert(slot, shared.clone());
        let wakes = self.wakes.replace(self.wakes.map_or(slot.0, |wakes| wakes.min(slot.0)));
        wakes.is_some_and(|wakes| slot.0 < wakes)
    }
}
