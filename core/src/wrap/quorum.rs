//! An engine made of engines: a ticket holds where a majority of independent stores serves it.

mod ask;
mod attempt;
mod board;
mod book;
mod numbers;
mod poll;
mod rest;
mod turn;
mod view;

use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join;

pub use self::board::{Answered, Board};
use self::book::{Known, Stage};
use self::numbers::Numbers;
use self::rest::Rest;
use super::AnyEngine;
use crate::event::{Cursor, News, Scope};
use crate::profile::{Fence, Liveness, Profile, Sight, Survives};
use crate::sample::Sampler;
use crate::sweep::Sweeper;
use crate::{
    Engine, Error, Host, Key, Leave, Left, Patience, Place, Result, SHARE_OF_MAX, Standing, Tally,
    Ticket, TicketId, Wake, Window,
};

/// The fewest stores that can outvote one.
const NODES_MIN: usize = 3;
/// How long a waiter waits before it tries again, at first. It grows by half with every try, up to the
/// patience, so that what is held for long is not asked for often.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const TRIES_GROWING: u32 = 16;
/// How often an onlooker looks.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// A lock over independent stores, none of which is trusted alone: RedLock, with a token that grows.
///
/// A ticket never waits in the lines of the stores: it is served at once by a majority, or it leaves
/// them all and tries again. So two holders would need two majorities, which share a store. The number is
/// the highest that any store gave; where they differ it is written back to a majority before it is
/// used, so that the next majority knows it.
///
/// Who tries when is seen to by a line of its own, where there are [places for it](Quorum::with_turns),
/// and else by uneven pauses. It decides nothing.
///
/// **Not promised**: an order among those who wait; a push; counters; capacities other than those of a
/// mutex and a reader-writer lock (three holders of "2 of 2" could each have two of three stores); that
/// others see a ticket's own token in the line, and not a higher number that a late store gave it; and
/// safety when a store loses its data and comes back within a ttl.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use tenure_core::wrap::{AnyEngine, Quorum};
/// use tenure_core::{Locks, Memory, PrivateThread};
///
/// # tenure_core::blocking::block_on(async {
/// let host = Arc::new(PrivateThread::for_timers());
/// let stores = (0..3).map(|_| AnyEngine::new(Memory::new()));
/// let quorum = Quorum::new(stores, host.clone(), Duration::from_millis(250))?;
/// let locks = Locks::on(quorum, host);
/// let guard = locks.mutex("invoices/42").lock().await?;
/// guard.release().await?;
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
pub struct Quorum {
    name: &'static str,
    board: Board,
    nodes: Arc<[Node]>,
    /// Where those who wait stand in line.
    turns: Vec<Node>,
    host: Arc<dyn Host>,
    /// How long one store may take to answer.
    patience: Duration,
    tickets: Mutex<HashMap<TicketId, Known>>,
    rest: Arc<Rest>,
    /// Every attempt has an id of its own in the stores: what takes out one that failed, however
    /// late it gets there, must not take out the next.
    attempts: AtomicU32,
    numbers: Numbers,
    sampler: Sampler,
}

#[derive(Clone)]
struct Node {
    engine: AnyEngine,
    sweeper: Arc<Sweeper>,
}

impl Node {
    fn new(engine: AnyEngine, host: &Arc<dyn Host>) -> Self {
        Self { sweeper: Sweeper::new(engine.clone(), host.clone()), engine }
    }
}

impl Quorum {
    /// A lock over these stores, each of which may take `patience` to answer.
    pub fn new(
        nodes: impl IntoIterator<Item = AnyEngine>,
        host: Arc<dyn Host>,
        patience: Duration,
    ) -> Result<Self> {
        let nodes: Arc<[Node]> = nodes.into_iter().map(|engine| Node::new(engine, &host)).collect();
        let board = Board::new((1..=nodes.len()).map(|count| format!("store {count}")));
        if nodes.len() < NODES_MIN {
            return Err(Error::invalid(format!(
                "a majority of {} stores is no protection: name at least {NODES_MIN}",
                nodes.len()
            )));
        }
        Ok(Self {
            name: "quorum",
            board,
            nodes,
            turns: Vec::new(),
            rest: Rest::new(host.clone(), patience),
            host,
            patience,
            tickets: Mutex::default(),
            attempts: AtomicU32::new(0),
            numbers: Numbers::default(),
            sampler: Sampler::new(LOOK_PAUSE),
        })
    }

    /// The same under the name of a kind of quorum, with a name for each of its stores, in their order.
    #[must_use]
    pub fn named(self, name: &'static str, stores: impl IntoIterator<Item = String>) -> Self {
        let board = Board::new(stores);
        assert_eq!(board.answers().len(), self.nodes.len(), "every store has one name");
        Self { name, board, ..self }
    }

    /// The same with a line for those who wait, kept by the first of these that answers: the same stores, most
    /// likely, under names that the locks themselves do not use.
    #[must_use]
    pub fn with_turns(self, stores: impl IntoIterator<Item = AnyEngine>) -> Self {
        let turns = stores.into_iter().map(|engine| Node::new(engine, &self.host)).collect();
        Self { turns, ..self }
    }

    /// How each store answered last, now and later.
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    fn refuse_unsafe(ticket: &Ticket) -> Result<()> {
        match ticket.share.of() {
            1 | SHARE_OF_MAX => Ok(()),
            of => Err(Error::unsupported(format!(
                "a quorum cannot keep a capacity of {of}: majorities share one store, but more than two of them need not; \
                 use a mutex, a reader-writer lock, or one store"
            ))),
        }
    }
}

fn held(number: u64, life: Option<Duration>) -> Place {
    Place { number, standing: Standing::Holding, ahead: 0, life, look: None, leaving: false }
}

/// Served by nobody: nothing of it lives in the stores that could end, but its place among those who wait,
/// which this is if it has one, and for which it can get another.
fn trying(place: Option<Place>) -> Place {
    Place {
        number: 0,
        standing: Standing::Waiting,
        ahead: place.map_or(1, |place| place.ahead.max(1)),
        life: None,
        look: place.and_then(|place| place.look),
        leaving: false,
    }
}

impl Engine for Quorum {
    fn profile(&self) -> Profile {
        let nodes: Vec<Profile> = self.nodes.iter().map(|node| node.engine.profile()).collect();
        let all = |holds: fn(&Survives) -> bool| nodes.iter().all(|node| holds(&node.survives));
        Profile {
            name: self.name,
            liveness: Liveness::Lease,
            fair: false,
            push: false,
            events: Sight::Sampled,
            fence: nodes.iter().map(|node| node.fence).min().unwrap_or(Fence::None),
            survives: Survives {
                holder_crash: true,
                holder_pause: true,
                store_crash: all(|node| node.store_crash),
                failover: false,
                clock_step: all(|node| node.clock_step),
                full_memory: all(|node| node.full_memory),
            },
            warnings: nodes.iter().flat_map(|node| node.warnings.clone()).collect(),
            rounding: nodes.iter().map(|node| node.rounding).max().unwrap_or_default(),
            answers_within: self.patience * 3,
            quick: false,
        }
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        Self::refuse_unsafe(ticket)?;
        if let Some(Known { stage: Stage::Holding { .. }, .. }) = self.known(ticket.id) {
            return self.renew(ticket).await;
        }
        let fresh = Known { stage: Stage::Trying(0), turn: None };
        self.tickets().entry(ticket.id).or_insert(fresh);
        let mut joined = self.try_join(ticket).await;
        if let Ok(None) = joined
            && patience == Patience::Wait
        {
            joined = self.stand_in_line(ticket).await.map(|place| Some(trying(place)));
        }
        // Where it is in, or may be, its owner goes on with it, or gives it back.
        if !matches!(&joined, Ok(Some(_))) && !joined.as_ref().is_err_and(Error::is_unknown) {
            self.forget(ticket);
        }
        joined
    }

    /// A ticket that holds is renewed; one that does not waits for its turn, or tries again.
    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let known = self.known(ticket.id);
        let Some(known) = known else { return Ok(None) };
        let Stage::Holding { attempt, number, .. } = known.stage else {
            return self.wait_or_try(ticket, known).await.map(Some);
        };
        let renewed = self.renew_everywhere(Ticket { id: attempt, ..ticket.clone() });
        let poll = match known.turn {
            None => renewed.await,
            // Whoever is behind is not told any sooner if it fails.
            Some(turn) => join(renewed, self.keep_turn(ticket, turn)).await.0,
        };
        let kept: Vec<&Place> = poll.answers().flatten().filter(|place| !place.leaving).collect();
        if kept.len() >= self.majority() {
            let life = kept.iter().filter_map(|place| place.life).min();
            return Ok(Some(held(number, life)));
        }
        if kept.len() + poll.silent() >= self.majority() {
            return Err(poll.too_few("renewed", self.majority()));
        }
        // No majority can have it any more. Its owner still gives back what is left.
        self.forget(ticket);
        Ok(None)
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        let known = self.known(ticket.id);
        let Some(Known { stage, turn }) = known else {
            return self.leave_by_name(ticket, how).await;
        };
        match (stage, how) {
            // Each of its tries has left all stores.
            (Stage::Trying(_), _) => {
                self.forget(ticket);
                Ok(Left::Waiting)
            }
            (Stage::Holding { attempt, .. }, Leave::Soon) => {
                self.leave_everywhere(&Ticket { id: attempt, ..ticket.clone() }, how).await
            }
            (Stage::Holding { attempt, late, .. }, Leave::Now) => {
                self.tickets().remove(&ticket.id);
                let attempt = Ticket { id: attempt, ..ticket.clone() };
                // The next one is let in right behind, and finds the stores free.
                let pass = async {
                    if let Some(turn) = turn {
                        self.pass_turn(ticket, turn);
                    }
                };
                join(self.give_up(&attempt, &late), pass).await.0
            }
        }
    }

    async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        let known = self.known(ticket.id);
        match (known.map(|known| (known.stage, known.turn)), seen) {
            // Its life runs from the try that succeeded, which nobody but a renewal can tell.
            (Some((Stage::Holding { .. }, _)), Standing::Waiting)
            | (None, _)
            | (Some((Stage::Trying(_), _)), Standing::Holding) => {}
            (Some((Stage::Holding { .. }, _)), Standing::Holding) => std::future::pending().await,
            (Some((Stage::Trying(_), Some(turn))), Standing::Waiting) if !turn.has_come => {
                self.await_turn(ticket, turn).await;
            }
            (Some((Stage::Trying(tries), _)), Standing::Waiting) => {
                let grown = tries.min(TRIES_GROWING);
                let pause = PAUSE_FIRST * 3u32.pow(grown) / 2u32.pow(grown);
                if let Some(Known { stage: Stage::Trying(tries), .. }) =
                    self.tickets().get_mut(&ticket.id)
                {
                    *tries += 1;
                }
                self.host.sleep(uneven(pause.min(self.patience), self.host.random())).await;
            }
        }
        Ok(Wake::Look)
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        self.sampler.events(self, &*self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.line_of_majority(key).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.keys_of_majority(prefix).await
    }

    async fn tally(&self, _: &Key, _: u64, _: Option<Window>) -> Result<Tally> {
        Err(Error::unsupported(
            "a quorum keeps no counters: count on one store, the counts of several cannot be made one",
        ))
    }

    async fn close(&self) {
        for node in self.turns.iter().chain(self.nodes.iter()) {
            node.sweeper.settled().await;
            node.engine.close().await;
        }
    }
}

/// Between half of it and all of it and a half, so that two who collided do not collide again.
fn uneven(pause: Duration, random: u64) -> Duration {
    let part = u32::try_from(random % 1024).unwrap_or(0);
    pause / 2 + pause / 1024 * part
}
