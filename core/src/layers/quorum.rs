//! An engine made of engines: a ticket holds where a majority of independent stores serves it.

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

/// The fewest stores that can outvote one.
const NODES_MIN: usize = 3;
/// How long a waiter waits before it tries again, at first. It grows by half with every try, up to
/// the patience, so that what is held for long is not asked for often.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const TRIES_GROWING: u32 = 16;
/// How often an onlooker looks.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// A lock over independent stores, none of which is trusted alone: RedLock, with a token that
/// grows.
///
/// A ticket never waits in the lines of the stores: it is served at once by a majority, or it
/// leaves them all and tries again, because lines that are ordered differently in each store would
/// wait for each other. So two holders would need two majorities, which share a store. The number
/// is the highest that any store gave; where they differ it is written back to a majority before it
/// is used, so that the next majority knows it.
///
/// Who tries when is seen to by a line of its own, where there are
/// [places for it](Quorum::with_turns), and else by uneven pauses. It decides nothing. The first
/// try of a ticket goes past it, unless its client knows that others wait; whoever gives a lock
/// back and wants it again looks. Who stands there is seen in the line behind those who hold, and
/// can be broken; who waits without a place is not seen.
///
/// A reader that would hold beside other readers looks at that line, and gives way to a writer
/// which waits there. So later readers do not overtake a writer without end.
///
/// **Not promised**: an order among those who wait; a push; counters; capacities other than those
/// of a mutex and a reader-writer lock (three holders of "2 of 2" could each have two of three
/// stores); that others see a ticket's own token in the line, and not a higher number that a late
/// store gave it; and safety when a store loses its data and comes back within a ttl.
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
    /// Where those who wait stand in line.
    turns: Stores,
    host: Arc<dyn Runtime>,
    /// How long one store may take to answer.
    patience: Duration,
    tickets: Mutex<HashMap<TicketId, TicketRecord>>,
    rest: Arc<Stragglers>,
    /// Every attempt has an id of its own in the stores: what takes out one that failed, however
    /// late it gets there, must not take out the next.
    attempts: AtomicU32,
    numbers: Numbers,
    crowds: Arc<ContentionCache>,
    sampler: Sampler,
}

impl Quorum {
    /// A lock over these stores, each of which may take `patience` to answer.
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

    /// The same under the name of a kind of quorum, with a name for each of its stores, in their
    /// order.
    #[must_use]
    pub fn named(mut self, name: &'static str, stores: impl IntoIterator<Item = String>) -> Self {
        let board = QuorumHealth::new(stores);
        assert_eq!(board.answers().len(), self.stores.nodes.len(), "every store has one name");
        self.stores.board = board;
        Self { name, ..self }
    }

    /// The same with a line for those who wait, kept by the first of these that answers: the same
    /// stores, most likely, under names that the locks themselves do not use.
    #[must_use]
    pub fn with_turns(self, stores: impl IntoIterator<Item = AnyEngine>) -> Self {
        Self { turns: Stores::new(stores, &self.host, &self.rest), ..self }
    }

    /// How each store answered last, now and later.
    pub fn board(&self) -> QuorumHealth {
        self.stores.board.clone()
    }

    /// A ticket that holds is renewed, and so is its place among those who wait.
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
            // Whoever was taken out while it waited, and came to hold at that moment, is told now.
            return Ok(Some(Place { leaving: !has_turn, ..held(number, life) }));
        }
        if kept(&poll).count() + poll.silent() >= majority {
            return Err(poll.too_few("renewed", majority));
        }
        // No majority keeps it any more. Its owner gives back what is left when it has stopped.
        Ok((told > 0).then(|| Place { leaving: true, ..held(number, None) }))
    }

    /// Returns once a majority has something to tell to the one that holds: it was told to leave,
    /// most likely.
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
        // The heartbeat will tell.
        std::future::pending::<()>().await;
    }
}

/// Majorities share one store, but more than two of them need not: three holders of "2 of 2" could
/// each have two of three stores. So whoever holds alone is kept, and whoever does not is kept from
/// nobody but those.
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

/// What a failed client left in a store must end there by itself.
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

/// Served by nobody: nothing of it lives in the stores that could end, but its place among those
/// who wait, which this is if it has one, and for which it can get another.
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
            // A sign of life in a line of turns, a look for a break, a place in another line, a
            // try, a number.
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
        // Where it is in, or may be, its owner goes on with it, or gives it back.
        if !matches!(&joined, Ok(Some(_))) && !joined.as_ref().is_err_and(Error::is_retryable) {
            self.forget(ticket);
        }
        joined
    }

    /// A ticket that holds is renewed; one that does not waits for its turn, or tries again.
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
            // The next one is let in right behind, and finds the stores free.
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
            // Its life runs from the try that succeeded, which nobody but a renewal can tell.
            (Stage::Holding { .. }, TicketState::Waiting, _)
            | (Stage::Trying(_), TicketState::Holding, _) => {}
            (Stage::Holding { attempt, .. }, TicketState::Holding, turn) => {
                let id = attempt[0].ticket.id;
                // What this client owes is not kept alive by whoever only listens.
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
                // From three quarters of it to one and a half: as long as it should be on average.
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
