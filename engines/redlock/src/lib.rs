//! RedLock: an engine over several independent stores. A ticket holds if a majority of them serves
//! it.

mod ask;
mod health;
mod tokens;
mod view;
mod wait_queue;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{join, join_all, try_join};
use futures_util::stream::FuturesUnordered;
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::layers::AnyEngine;
use tenure_core::sync::Mutex;
use tenure_core::toolbox::{Sampler, jitter};
use tenure_core::{
    Backoff, CounterValue, Engine, Error, FaultTolerance, Guarantees, Key, LeaveMode, LeaveOutcome,
    Liveness, Place, Result, Runtime, SHARE_OF_MAX, Ticket, TicketId, TicketState, TokenDurability,
    WaitMode, Wake, Window,
};

use self::ask::{Poll, QuorumAttempt, QuorumNode, Stores, Stragglers};
pub use self::health::{NodeHealth, QuorumHealth};
use self::tokens::{Proposals, now_us, numbers};
use self::wait_queue::{Contended, QueueTurn, SlotRenewal, WaitSlot};

/// Minimum number of stores.
const NODES_MIN: usize = 3;
/// First pause of a waiter between two tries. It grows by half with each try, up to the time limit
/// of a store.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const TRIES_GROWING: u32 = 16;
/// Time between two snapshots of a watcher.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// A lock over independent stores, none of which is trusted alone: RedLock, with a token that
/// grows.
///
/// A ticket never waits in the lines of the stores, because lines with different orders would
/// deadlock. A majority serves it at once, or it leaves all stores and tries again. Two holders
/// would need two majorities, which share a store. The token is the highest number of any store. If
/// the numbers differ, it is written to a majority before it is used, so that the next majority
/// knows it.
///
/// All tickets of a key stand in a [wait queue](Quorum::with_wait_queues) in one of the stores, if
/// there is one. A ticket tries to hold only while the queue serves it, and a release wakes the
/// next. Therefore later readers do not starve a writer, and a client that locks again waits behind
/// the others. The queue only orders: if no store with a queue answers, or if clients cannot reach
/// the same one, waiters try after pauses with jitter, in any order. Inspection shows the waiters
/// of the queue, and a break removes them; other waiters are not shown.
///
/// **Not promised**: an order of waiters; a push; counters; semaphores (three holders of "2 of 2"
/// could each have two of three stores); that inspection shows a ticket's token, and not a higher
/// number of a late store; safety if a store loses its data and restarts within a ttl.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use tenure_core::layers::AnyEngine;
/// use tenure_core::{BackgroundRuntime, Locks, Memory};
/// use tenure_redlock::Quorum;
///
/// # tenure_core::blocking::block_on(async {
/// let host = Arc::new(BackgroundRuntime::for_timers());
/// let stores = (0..3).map(|_| AnyEngine::new(Memory::new()));
/// let quorum = Quorum::new(stores, host.clone(), Duration::from_millis(250))?;
/// let locks = Locks::on(quorum, host);
/// let guard = locks.mutex("invoices/42").lock().await?;
/// guard.release().await?;
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
pub struct Quorum {
    name: &'static str,
    stores: Stores,
    /// The stores of the wait queues.
    queues: Stores,
    /// Time limit of one store.
    patience: Duration,
    tickets: Mutex<HashMap<TicketId, TicketRecord>>,
    stragglers: Arc<Stragglers>,
    /// Each attempt has its own id in the stores: a late removal of a failed attempt must not
    /// remove the next.
    attempts: AtomicU32,
    proposals: Proposals,
    contended: Contended,
    sampler: Sampler,
}

/// The record of one ticket of this client.
#[derive(Clone)]
struct TicketRecord {
    stage: Stage,
    slot: Option<WaitSlot>,
}

#[derive(Clone)]
enum Stage {
    /// No majority serves it. Number of attempts that failed since the queue serves it.
    Trying(u32),
    /// A majority serves this attempt.
    Holding { number: u64, attempt: QuorumAttempt },
}

/// An attempt that a majority serves. Dropping it removes it from all stores.
struct Won {
    number: u64,
    life: Option<Duration>,
    attempt: QuorumAttempt,
}

impl Quorum {
    /// A lock over these stores, each with the time limit `patience`.
    ///
    /// # Errors
    ///
    /// There are fewer than three stores, or a store's tickets do not expire.
    pub fn new(
        nodes: impl IntoIterator<Item = AnyEngine>,
        host: Arc<dyn Runtime>,
        patience: Duration,
    ) -> Result<Self> {
        host.ready()?;
        let stragglers = Stragglers::new(host, patience);
        let stores = Stores::new(nodes, &stragglers);
        if stores.nodes.len() < NODES_MIN {
            return Err(Error::invalid(format!(
                "a majority of {} stores is no protection: name at least {NODES_MIN}",
                stores.nodes.len()
            )));
        }
        for node in &stores.nodes {
            refuse_without_leases(&node.engine.guarantees())?;
        }
        Ok(Self {
            name: "quorum",
            queues: Stores::new([], &stragglers),
            stores,
            stragglers,
            patience,
            tickets: Mutex::default(),
            attempts: AtomicU32::new(0),
            proposals: Proposals::default(),
            contended: Contended::default(),
            sampler: Sampler::new(LOOK_PAUSE),
        })
    }

    /// Sets the name of the engine, and a name for each store in order.
    #[must_use]
    pub fn named(mut self, name: &'static str, stores: impl IntoIterator<Item = String>) -> Self {
        let health = QuorumHealth::new(stores);
        assert_eq!(health.answers().len(), self.stores.nodes.len(), "every store has one name");
        self.stores.health = health;
        Self { name, ..self }
    }

    /// Adds wait queues. Without them waiters have no order, and readers may starve a writer.
    /// `stores` are the same stores in order, with names that the locks do not use, or none.
    #[must_use]
    pub fn with_wait_queues(self, stores: impl IntoIterator<Item = AnyEngine>) -> Self {
        let queues = Stores::new(stores, &self.stragglers);
        let count = queues.nodes.len();
        assert!(count == 0 || count == self.stores.nodes.len(), "every store has one queue");
        Self { queues, ..self }
    }

    /// The last answer of each store. It is updated with each request.
    pub fn health(&self) -> QuorumHealth {
        self.stores.health.clone()
    }

    fn tickets(&self) -> MutexGuard<'_, HashMap<TicketId, TicketRecord>> {
        self.tickets.lock()
    }

    fn record(&self, id: TicketId) -> Option<TicketRecord> {
        self.tickets().get(&id).cloned()
    }

    /// Forgets a ticket, and removes it from all stores.
    fn forget(&self, ticket: &Ticket) {
        // After the lock is released, because stores may be called at once.
        let record = self.tickets().remove(&ticket.id);
        drop(record);
    }

    fn next_attempt(&self, id: TicketId) -> TicketId {
        id.attempt(self.attempts.fetch_add(1, Ordering::Relaxed))
    }

    /// The first attempt of a ticket, beside its join of the wait queue.
    async fn first_attempt(&self, ticket: &Ticket, mode: WaitMode) -> Result<Place> {
        let queued = async { Ok(self.stand_in_queue(ticket, mode).await) };
        let queued = async { Ok(self.stragglers.in_time(queued).await.unwrap_or_default()) };
        if self.contended.has(&ticket.key) {
            return self.try_in_turn(ticket, queued.await?).await;
        }
        let (turn, won) = try_join(queued, self.attempt(ticket, 0)).await?;
        // If other tickets are ahead, the attempt leaves the stores again.
        Ok(self.settle(ticket, turn, won.filter(|_| !turn.waits)))
    }

    /// Tries again, unless other tickets are ahead.
    async fn try_in_turn(&self, ticket: &Ticket, turn: QueueTurn) -> Result<Place> {
        // The number that inspection showed while it waited must not be above its token.
        let floor = turn.place.map_or(0, |place| place.number);
        if turn.waits {
            return Ok(self.settle(ticket, turn, None));
        }
        match self.attempt(ticket, floor).await {
            Ok(won) => Ok(self.settle(ticket, turn, won)),
            // A client that reaches no majority must not keep others waiting.
            Err(error) => {
                self.set_slot(ticket.id, None);
                Err(error)
            }
        }
    }

    /// Records the outcome of an attempt, if there was one.
    fn settle(&self, ticket: &Ticket, turn: QueueTurn, won: Option<Won>) -> Place {
        let mut tickets = self.tickets();
        let stage = tickets.get_mut(&ticket.id).map(|record| &mut record.stage);
        match (stage, won) {
            (Some(stage @ Stage::Trying(_)), Some(Won { number, life, attempt })) => {
                *stage = Stage::Holding { number, attempt };
                return held(number, life);
            }
            (Some(Stage::Trying(failed)), None) => *failed += u32::from(!turn.waits),
            // Its owner has left meanwhile, or another attempt was served: this one leaves, after
            // the lock is released, because stores may be called at once.
            (_, won) => {
                drop(tickets);
                drop(won);
            }
        }
        waiting(turn.place)
    }

    /// One attempt: a majority serves the ticket at once, or it leaves all stores. `None`: busy.
    async fn attempt(&self, ticket: &Ticket, floor: u64) -> Result<Option<Won>> {
        let (id, host) = (self.next_attempt(ticket.id), &*self.stragglers.host);
        let sent = now_us(host);
        let floor = ticket.floor.max(floor).max(self.proposals.next(sent));
        let asked = Ticket { id, floor, ..ticket.clone() };
        let attempt: QuorumAttempt = self.stores.owe(&asked);
        let majority = self.stores.majority();
        let decided = |poll: &Poll<Option<Place>>| {
            let granted = poll.answers().flatten().count();
            let busy = poll.answers().count() - granted;
            granted >= majority || busy > attempt.len() - majority
        };
        let joins = attempt.iter().map(|owed| owed.clone().join(WaitMode::NoWait));
        let poll = self.stores.ask_each(decided, joins).await;
        let heard = now_us(host);
        let granted: Vec<&Place> = poll.answers().flatten().collect();
        if granted.len() < majority {
            return poll.enough_answers(majority).map(|_| None);
        }
        self.stores.health.compare(&numbers(&poll));
        let number = granted.iter().map(|place| place.number).max().unwrap_or(0);
        if granted.iter().filter(|place| place.number == number).count() < majority {
            // A majority knows the number before it is used. A store in which the ticket is leaving
            // does not change it any more.
            let poll = self.renew_everywhere(Ticket { floor: number, ..asked }).await;
            if poll.kept().count() < majority {
                return Err(poll.too_few("took down the number", majority));
            }
        }
        self.proposals.learn((sent, heard), floor, number);
        let life = granted.iter().filter_map(|place| place.life).min();
        Ok(Some(Won { number, life, attempt }))
    }

    /// Renews a holder, and its place in the wait queue.
    async fn renew_held(
        &self,
        ticket: &Ticket,
        number: u64,
        attempt: &QuorumAttempt,
        slot: Option<&WaitSlot>,
    ) -> Result<Option<Place>> {
        let asked = Ticket { id: attempt[0].ticket.id, ..ticket.clone() };
        let renew_slot = async {
            match slot {
                Some(slot) => self.renew_slot(ticket, slot).await,
                None => SlotRenewal::Lost,
            }
        };
        let (poll, renewed) = join(self.renew_everywhere(asked), renew_slot).await;
        if let SlotRenewal::Lost = renewed {
            // The next waiter tries after pauses.
            self.set_slot(ticket.id, None);
        }
        let (kept, majority) = (poll.kept().count(), self.stores.majority());
        if kept >= majority {
            let life = poll.kept().filter_map(|place| place.life).min();
            // The ticket may have been broken while it waited, and served at the same moment.
            let leaving = matches!(renewed, SlotRenewal::Broken);
            return Ok(Some(Place { leaving, ..held(number, life) }));
        }
        if kept + poll.silent() >= majority {
            return Err(poll.too_few("renewed", majority));
        }
        // No majority has it any more. Its owner releases the rest when it has stopped.
        let is_asked_to_leave = poll.answers().flatten().count() > kept;
        Ok(is_asked_to_leave.then(|| Place { leaving: true, ..held(number, None) }))
    }

    /// Renews a place in the wait queue, and tries when its turn has come.
    async fn renew_waiting(&self, ticket: &Ticket, record: TicketRecord) -> Result<Option<Place>> {
        let turn = match (record.slot, record.stage) {
            // A push said so, and this is the first attempt since.
            (Some(slot), Stage::Trying(0)) if slot.is_served() => slot.place.into(),
            (Some(slot), _) => match self.renew_slot(ticket, &slot).await {
                SlotRenewal::Kept(place) => place.into(),
                SlotRenewal::Lost | SlotRenewal::Silent => {
                    self.stand_in_queue(ticket, WaitMode::Wait).await
                }
                SlotRenewal::Broken => {
                    self.forget(ticket);
                    return Ok(None);
                }
            },
            (None, _) => self.stand_in_queue(ticket, WaitMode::Wait).await,
        };
        self.try_in_turn(ticket, turn).await.map(Some)
    }

    /// Renews one attempt in every store.
    async fn renew_everywhere(&self, ticket: Ticket) -> Poll<Option<Place>> {
        let majority = self.stores.majority();
        let renew = |engine: AnyEngine| {
            let ticket = ticket.clone();
            async move { engine.renew(&ticket).await }
        };
        self.stores.ask(|poll| poll.kept().count() >= majority, renew).await
    }

    /// Removes one attempt from every store.
    async fn leave_everywhere(&self, attempt: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let leave = |engine: AnyEngine| {
            let attempt = attempt.clone();
            async move { engine.leave(&attempt, how).await }
        };
        self.stores.ask(|poll| self.is_out(poll), leave).await.left(self.stores.majority())
    }

    /// Removes the attempt that holds.
    async fn give_up(&self, attempt: QuorumAttempt) -> Result<LeaveOutcome> {
        let leaves = attempt.iter().map(|owed| owed.clone().leave());
        let poll = self.stores.ask_each(|poll| self.is_out(poll), leaves).await;
        poll.left(self.stores.majority())
    }

    fn is_out(&self, poll: &Poll<LeaveOutcome>) -> bool {
        poll.count(LeaveOutcome::Holding) >= self.stores.majority()
    }

    /// Waits until a majority reports a change of a holder: usually that it was asked to leave.
    async fn await_break(&self, attempt: &Ticket) {
        let watch = |node: &Arc<QuorumNode>| {
            let (node, attempt) = (node.clone(), attempt.clone());
            async move {
                let host = &*self.stragglers.host;
                let mut backoff = Backoff::new(self.patience, self.patience * 16);
                while node.engine.watch(&attempt, TicketState::Holding).await.is_err() {
                    host.sleep(backoff.next(host.random())).await;
                }
            }
        };
        let mut watches: FuturesUnordered<_> = self.stores.nodes.iter().map(watch).collect();
        let mut rung = 0;
        while watches.next().await.is_some() {
            rung += 1;
            if rung >= self.stores.majority() {
                return;
            }
        }
        // The next renewal finds the change.
        std::future::pending::<()>().await;
    }

    /// The pause after this many attempts that failed.
    fn pause(&self, failed: u32) -> Duration {
        let grown = failed.saturating_sub(1).min(TRIES_GROWING);
        let pause = PAUSE_FIRST * 3u32.pow(grown) / 2u32.pow(grown);
        // From 3/4 to 3/2 of the pause: the average is the pause itself.
        jitter(pause.min(self.patience) * 3 / 2, self.stragglers.host.random())
    }
}

/// Any two majorities share a store, but three of them need not share one: three holders of "2 of
/// 2" could each have two of three stores. Only mutexes, writers and readers are supported.
fn refuse_unsafe(ticket: &Ticket) -> Result<()> {
    let (take, of) = (ticket.share.take(), ticket.share.of());
    if of == SHARE_OF_MAX && (take == 1 || take == of) {
        return Ok(());
    }
    let key = &ticket.key;
    let kind = if of == SHARE_OF_MAX {
        format!("{take} shares of the reader-writer lock {key:?}")
    } else {
        format!("{key:?} as a semaphore of {of}")
    };
    Err(Error::unsupported(format!(
        "a quorum cannot keep {kind}: it keeps mutexes, readers and writers; take one store for anything else"
    )))
}

/// Tickets of a failed client must expire by themselves.
fn refuse_without_leases(profile: &Guarantees) -> Result<()> {
    match profile.liveness {
        Liveness::Lease | Liveness::Process => Ok(()),
        _ => Err(Error::unsupported(format!(
            "a quorum cannot be made of {}: its tickets have no ttl of their own; take stores that keep leases",
            profile.name
        ))),
    }
}

fn held(number: u64, life: Option<Duration>) -> Place {
    Place { number, state: TicketState::Holding, ahead: 0, life, look: None, leaving: false }
}

/// The place of a ticket that no majority serves. `place` is its place in the wait queue.
fn waiting(place: Option<Place>) -> Place {
    Place {
        number: place.map_or(0, |place| place.number),
        state: TicketState::Waiting,
        ahead: place.map_or(1, |place| place.ahead.max(1)),
        life: None,
        look: place.and_then(|place| place.look),
        leaving: false,
    }
}

impl Engine for Quorum {
    fn guarantees(&self) -> Guarantees {
        let nodes: Vec<Guarantees> =
            self.stores.nodes.iter().map(|node| node.engine.guarantees()).collect();
        let all =
            |holds: fn(&FaultTolerance) -> bool| nodes.iter().all(|node| holds(&node.survives));
        let mut guarantees = Guarantees::new(self.name, Liveness::Lease);
        guarantees.store = self.stores.health.names();
        guarantees.fencing =
            nodes.iter().map(|node| node.fencing).min().unwrap_or(TokenDurability::None);
        guarantees.survives.holder_crash = true;
        guarantees.survives.holder_pause = true;
        guarantees.survives.store_crash = all(|node| node.store_crash);
        guarantees.survives.clock_step = all(|node| node.clock_step);
        guarantees.survives.full_memory = all(|node| node.full_memory);
        let of_stores = nodes.iter().flat_map(|node| node.warnings.clone());
        guarantees.warnings = of_stores.chain(self.stores.health.warnings()).collect();
        guarantees.rounding = nodes.iter().map(|node| node.rounding).max().unwrap_or_default();
        // The steps: renew the place in the queue, check for a break, join another queue, try,
        // write the number.
        guarantees.answers_within =
            self.patience * u32::try_from(self.queues.nodes.len() + 4).unwrap_or(u32::MAX);
        guarantees
    }

    async fn join(&self, ticket: &Ticket, mode: WaitMode) -> Result<Option<Place>> {
        refuse_unsafe(ticket)?;
        let joined = match self.record(ticket.id) {
            None | Some(TicketRecord { stage: Stage::Trying(_), slot: None }) => {
                let fresh = TicketRecord { stage: Stage::Trying(0), slot: None };
                self.tickets().entry(ticket.id).or_insert(fresh);
                self.first_attempt(ticket, mode).await.map(Some)
            }
            Some(_) => self.renew(ticket).await,
        };
        let may_stay =
            |place: &Place| mode == WaitMode::Wait || place.state == TicketState::Holding;
        let joined = joined.map(|place| place.filter(may_stay));
        // If it is in, or may be in, its owner continues with it or releases it.
        if !matches!(&joined, Ok(Some(_))) && !joined.as_ref().is_err_and(Error::is_retryable) {
            self.forget(ticket);
        }
        joined
    }

    /// Renews a holder. A waiter waits for its turn, or tries again.
    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        refuse_unsafe(ticket)?;
        let Some(record) = self.record(ticket.id) else { return Ok(None) };
        match &record.stage {
            Stage::Trying(_) => self.renew_waiting(ticket, record).await,
            Stage::Holding { number, attempt } => {
                self.renew_held(ticket, *number, attempt, record.slot.as_ref()).await
            }
        }
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let Some(record) = self.record(ticket.id) else { return self.take_out(ticket, how).await };
        if let (Stage::Holding { attempt, .. }, LeaveMode::Graceful) = (&record.stage, how) {
            let attempt = Ticket { id: attempt[0].ticket.id, ..ticket.clone() };
            return self.leave_everywhere(&attempt, how).await;
        }
        self.forget(ticket);
        match record.stage {
            // Each of its tries has left all stores.
            Stage::Trying(_) => {
                self.leave_queue(record.slot).await;
                Ok(LeaveOutcome::Waiting)
            }
            Stage::Holding { attempt, .. } => {
                join(self.give_up(attempt), self.leave_queue(record.slot)).await.0
            }
        }
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        let Some(TicketRecord { stage, slot }) = self.record(ticket.id) else {
            return Ok(Wake::Look);
        };
        match (stage, seen, slot) {
            // Its ttl runs from the successful try, which only a renewal can report.
            (Stage::Holding { .. }, TicketState::Waiting, _)
            | (Stage::Trying(_), TicketState::Holding, _) => {}
            (Stage::Holding { attempt, .. }, TicketState::Holding, slot) => {
                let attempt_id = attempt[0].ticket.id;
                // A waiting task must not keep the other tickets of this client alive.
                drop((attempt, slot));
                self.await_break(&Ticket { id: attempt_id, ..ticket.clone() }).await;
            }
            (Stage::Trying(_), TicketState::Waiting, Some(slot)) if !slot.is_served() => {
                self.await_turn(ticket, slot).await;
            }
            (Stage::Trying(failed), TicketState::Waiting, slot) => {
                drop(slot);
                self.stragglers.host.sleep(self.pause(failed)).await;
            }
        }
        Ok(Wake::Look)
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.sampler.events(self, &*self.stragglers.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.line_of_majority(key).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.keys_of_majority(prefix).await
    }

    async fn add(&self, _: &Key, _: u64, _: Option<Window>) -> Result<CounterValue> {
        Err(Error::unsupported(
            "a quorum keeps no counters and no sequences: use one store for them, because the counts of several cannot be made one",
        ))
    }

    async fn close(&self) {
        self.stragglers.flush().await;
        let nodes = self.stores.nodes.iter().chain(&self.queues.nodes);
        join_all(nodes.map(|node| async {
            node.releaser.flush().await;
            node.engine.close().await;
        }))
        .await;
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quorum").field("name", &self.name).finish_non_exhaustive()
    }
}
