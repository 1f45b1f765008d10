//! RedLock: an engine over several independent stores. A ticket holds if a majority of them serves
//! it.

mod ask;
mod attempt;
mod board;
mod breaking;
mod crowds;
mod known;
mod node;
mod numbers;
mod owed;
mod poll;
mod rest;
mod stores;
mod turn;
mod turns;
mod view;

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{join, join_all};
use futures_util::stream::FuturesUnordered;

use self::ask::kept;
pub use self::board::{NodeHealth, QuorumHealth};
use self::crowds::ContentionCache;
use self::known::{Stage, TicketRecord};
use self::node::Node;
use self::numbers::Numbers;
use self::owed::Attempt;
use self::rest::Stragglers;
use self::stores::Stores;
use self::turn::WaitSlot;
use super::AnyEngine;
use crate::contract::guarantees::{
    EventDelivery, FaultTolerance, Guarantees, Liveness, TokenDurability,
};
use crate::event::{Cursor, EventBatch, Scope};
use crate::line::sample::Sampler;
use crate::{
    CounterValue, Engine, Error, Key, LeaveMode, LeaveOutcome, Place, Result, Runtime,
    SHARE_OF_MAX, Ticket, TicketId, TicketState, WaitMode, Wake, Window, jitter,
};

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
/// Waiters stand in a [queue](Quorum::with_turns) in one of the stores, if there is one. Only the
/// first of them tries, and a release wakes the next. Without a queue, waiters try after pauses
/// with jitter. The queue decides nothing. The first try of a ticket skips it, unless its client
/// knows of other waiters. Inspection shows the waiters of the queue, and a break removes them;
/// other waiters are not shown.
///
/// A reader that would hold beside other readers reads the queue, and yields to a writer that waits
/// there. Later readers therefore do not starve a writer.
///
/// **Not promised**: an order of waiters; a push; counters; semaphores (three holders of "2 of 2"
/// could each have two of three stores); that inspection shows a ticket's token, and not a higher
/// number of a late store; safety if a store loses its data and restarts within a ttl.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use tenure::engine::{AnyEngine, Quorum};
/// use tenure::{Locks, engine::{Memory, BackgroundRuntime}};
///
/// # tenure::blocking::block_on(async {
/// let host = Arc::new(BackgroundRuntime::for_timers());
/// let stores = (0..3).map(|_| AnyEngine::new(Memory::new()));
/// let quorum = Quorum::new(stores, host.clone(), Duration::from_millis(250))?;
/// let locks = Locks::on(quorum, host);
/// let guard = locks.mutex("invoices/42").lock().await?;
/// guard.release().await?;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub struct Quorum {
    name: &'static str,
    stores: Stores,
    /// The queue of waiters.
    turns: Stores,
    host: Arc<dyn Runtime>,
    /// Time limit of one store.
    patience: Duration,
    tickets: Mutex<HashMap<TicketId, TicketRecord>>,
    rest: Arc<Stragglers>,
    /// Each attempt has its own id in the stores: a late removal of a failed attempt must not
    /// remove the next.
    attempts: AtomicU32,
    numbers: Numbers,
    crowds: Arc<ContentionCache>,
    sampler: Sampler,
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
        let rest = Stragglers::new(host.clone(), patience);
        let stores = Stores::new(nodes, &host, &rest);
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
            turns: Stores::new([], &host, &rest),
            stores,
            rest,
            host,
            patience,
            tickets: Mutex::default(),
            attempts: AtomicU32::new(0),
            numbers: Numbers::default(),
            crowds: Arc::default(),
            sampler: Sampler::new(LOOK_PAUSE),
        })
    }

    /// Sets the name of the engine, and a name for each store in order.
    #[must_use]
    pub fn named(mut self, name: &'static str, stores: impl IntoIterator<Item = String>) -> Self {
        let board = QuorumHealth::new(stores);
        assert_eq!(board.answers().len(), self.stores.nodes.len(), "every store has one name");
        self.stores.board = board;
        Self { name, ..self }
    }

    /// Adds a queue of waiters. The first of these stores that answers keeps it: usually the same
    /// stores, with names that the locks do not use.
    #[must_use]
    pub fn with_turns(self, stores: impl IntoIterator<Item = AnyEngine>) -> Self {
        Self { turns: Stores::new(stores, &self.host, &self.rest), ..self }
    }

    /// The last answer of each store. It is updated with each request.
    pub fn board(&self) -> QuorumHealth {
        self.stores.board.clone()
    }

    /// Renews a holder, and its place in the queue.
    async fn renew_held(
        &self,
        ticket: &Ticket,
        number: u64,
        attempt: &Attempt,
        turn: Option<&WaitSlot>,
    ) -> Result<Option<Place>> {
        let asked = Ticket { id: attempt[0].ticket.id, ..ticket.clone() };
        let renewed = self.renew_everywhere(asked);
        let (poll, has_turn) = join(renewed, self.keep_turn_of_holder(ticket, turn)).await;
        let majority = self.stores.majority();
        let told = poll.answers().flatten().count() - kept(&poll).count();
        if kept(&poll).count() >= majority {
            let life = kept(&poll).filter_map(|place| place.life).min();
            // The ticket was broken while it waited, and was served at the same moment.
            return Ok(Some(Place { leaving: !has_turn, ..held(number, life) }));
        }
        if kept(&poll).count() + poll.silent() >= majority {
            return Err(poll.too_few("renewed", majority));
        }
        // No majority has it any more. Its owner releases the rest when it has stopped.
        Ok((told > 0).then(|| Place { leaving: true, ..held(number, None) }))
    }

    /// Waits until a majority reports a change of a holder: usually that it was asked to leave.
    async fn await_break(&self, ticket: &Ticket, attempt: TicketId) {
        let asked = Ticket { id: attempt, ..ticket.clone() };
        let watch = |node: &Arc<Node>| {
            let (node, asked) = (node.clone(), asked.clone());
            async move { node.engine.watch(&asked, TicketState::Holding).await }
        };
        let mut watches: FuturesUnordered<_> = self.stores.nodes.iter().map(watch).collect();
        let mut rung = 0;
        while let Some(wake) = watches.next().await {
            rung += usize::from(wake.is_ok());
            if rung >= self.stores.majority() {
                return;
            }
        }
        // The next renewal finds the change.
        std::future::pending::<()>().await;
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
        Liveness::Kernel | Liveness::Session => Err(Error::unsupported(format!(
            "a quorum cannot be made of {}: its tickets have no ttl of their own; take stores that keep leases",
            profile.name
        ))),
    }
}

fn held(number: u64, life: Option<Duration>) -> Place {
    Place { number, state: TicketState::Holding, ahead: 0, life, look: None, leaving: false }
}

/// The place of a ticket that no majority serves. `place` is its place in the queue, if it has one.
fn trying(place: Option<Place>) -> Place {
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
        Guarantees {
            name: self.name,
            store: self.stores.board.whom(),
            liveness: Liveness::Lease,
            fair: false,
            push: false,
            events: EventDelivery::Sampled,
            fencing: nodes.iter().map(|node| node.fencing).min().unwrap_or(TokenDurability::None),
            survives: FaultTolerance {
                holder_crash: true,
                holder_pause: true,
                store_crash: all(|node| node.store_crash),
                failover: false,
                clock_step: all(|node| node.clock_step),
                full_memory: all(|node| node.full_memory),
            },
            warnings: nodes
                .iter()
                .flat_map(|node| node.warnings.clone())
                .chain(self.stores.board.warnings())
                .collect(),
            rounding: nodes.iter().map(|node| node.rounding).max().unwrap_or_default(),
            // The steps: renew the place in the queue, check for a break, join another queue, try,
            // write the number.
            answers_within: self.patience
                * u32::try_from(self.turns.nodes.len() + 4).unwrap_or(u32::MAX),
            quick: false,
        }
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        refuse_unsafe(ticket)?;
        if let Some(TicketRecord { stage: Stage::Holding { .. }, .. }) = self.known(ticket.id) {
            return self.renew(ticket).await;
        }
        let waits = patience == WaitMode::Wait;
        let fresh = TicketRecord { stage: Stage::Trying(0), turn: None };
        self.tickets().entry(ticket.id).or_insert(fresh);
        let joined = if waits && self.goes_to_the_line(&ticket.key) {
            let place = self.stand_in_line(ticket).await;
            self.try_in_turn(ticket, place).await
        } else {
            match self.try_past_line(ticket).await {
                Ok(None) if waits => Ok(Some(trying(self.stand_in_line(ticket).await))),
                joined => joined,
            }
        };
        // If it is in, or may be in, its owner continues with it or releases it.
        if !matches!(&joined, Ok(Some(_))) && !joined.as_ref().is_err_and(Error::is_retryable) {
            self.forget(ticket);
        }
        joined
    }

    /// Renews a holder. A waiter waits for its turn, or tries again.
    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        refuse_unsafe(ticket)?;
        let Some(known) = self.known(ticket.id) else { return Ok(None) };
        match &known.stage {
            Stage::Trying(_) => self.wait_or_try(ticket, known).await,
            Stage::Holding { number, attempt } => {
                self.renew_held(ticket, *number, attempt, known.turn.as_ref()).await
            }
        }
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let Some(known) = self.known(ticket.id) else { return self.take_out(ticket, how).await };
        if let (Stage::Holding { attempt, .. }, LeaveMode::Graceful) = (&known.stage, how) {
            let attempt = Ticket { id: attempt[0].ticket.id, ..ticket.clone() };
            return self.leave_everywhere(&attempt, how).await;
        }
        self.forget(ticket);
        match known.stage {
            // Each of its tries has left all stores.
            Stage::Trying(_) => {
                self.pass_turn(known.turn).await;
                Ok(LeaveOutcome::Waiting)
            }
            // The next waiter comes right after, and must find the stores free.
            Stage::Holding { attempt, .. } => {
                self.crowds.note_left(&ticket.key, self.host.now());
                join(self.give_up(attempt), self.pass_turn(known.turn)).await.0
            }
        }
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        let Some(TicketRecord { stage, turn }) = self.known(ticket.id) else {
            return Ok(Wake::Look);
        };
        match (stage, seen, turn) {
            // Its ttl runs from the successful try, which only a renewal can report.
            (Stage::Holding { .. }, TicketState::Waiting, _)
            | (Stage::Trying(_), TicketState::Holding, _) => {}
            (Stage::Holding { attempt, .. }, TicketState::Holding, turn) => {
                let id = attempt[0].ticket.id;
                // A waiting task must not keep the other tickets of this client alive.
                drop((attempt, turn));
                self.await_break(ticket, id).await;
            }
            (Stage::Trying(_), TicketState::Waiting, Some(turn)) if !turn.has_come() => {
                self.await_turn(ticket, turn).await;
            }
            (Stage::Trying(tries), TicketState::Waiting, turn) => {
                let grown = tries.min(TRIES_GROWING);
                let pause = PAUSE_FIRST * 3u32.pow(grown) / 2u32.pow(grown);
                if let Some(TicketRecord { stage: Stage::Trying(tries), .. }) =
                    self.tickets().get_mut(&ticket.id)
                {
                    *tries += 1;
                }
                // From 3/4 to 3/2 of the pause: the average is the pause itself.
                let pause = jitter(pause.min(self.patience) * 3 / 2, self.host.random());
                self.pause(ticket, turn, pause).await;
            }
        }
        Ok(Wake::Look)
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.sampler.events(self, &*self.host, scope, after).await
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
        self.rest.flush().await;
        let nodes = self.stores.nodes.iter().chain(&self.turns.nodes);
        join_all(nodes.map(|node| async {
            node.sweeper.flush().await;
            node.engine.close().await;
        }))
        .await;
    }
}
