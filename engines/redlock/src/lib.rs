//! RedLock: an engine over several independent stores. A ticket holds if a majority of them serves
//! it.
//!
//! | file | contents |
//! |---|---|
//! | `lib` | the quorum: its stores and its names |
//! | `engine` | the ten verbs |
//! | `records` | the records of this client's tickets |
//! | `attempt` | one attempt to hold, and the renewal and the release of one that holds |
//! | `wait_queue` | the queue of a key, in one of the stores |
//! | `tokens` | the numbers that a client proposes |
//! | `view` | inspection and breaks |
//! | `stores`, `poll` | a request to all stores, and the answers that decide |
//! | `stragglers`, `owed_ticket` | answers that come too late, and tickets that have to be removed |
//! | `health` | the last answer of each store |

mod attempt;
mod engine;
mod health;
mod owed_ticket;
mod poll;
mod records;
mod stores;
mod stragglers;
mod tokens;
mod view;
mod wait_queue;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tenure_core::layers::AnyEngine;
use tenure_core::sync::Mutex;
use tenure_core::toolbox::Sampler;
use tenure_core::{Engine as _, Error, Guarantees, Liveness, Result, Runtime, Ticket, TicketId};

pub use self::health::{NodeHealth, QuorumHealth};
use self::records::{Stage, TicketRecord, TicketRecords};
use self::stores::Stores;
use self::stragglers::Stragglers;
use self::tokens::Proposals;
use self::wait_queue::Contended;

/// Minimum number of stores.
const NODES_MIN: usize = 3;
/// Pause between two snapshots of a watcher.
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
/// number that a slow store gave it; safety if a store loses its data and restarts within a ttl.
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
    tickets: Mutex<TicketRecords>,
    stragglers: Arc<Stragglers>,
    /// Each attempt has its own id in the stores: a late removal of a failed attempt must not
    /// remove the next.
    attempts: AtomicU32,
    proposals: Proposals,
    contended: Contended,
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

    fn record(&self, id: TicketId) -> Option<TicketRecord> {
        self.tickets.lock().by_id.get(&id).cloned()
    }

    /// Forgets a ticket, and removes it from all stores.
    fn forget(&self, ticket: &Ticket) {
        // After the lock is released, because stores may be called at once.
        let record = self.tickets.lock().by_id.remove(&ticket.id);
        drop(record);
    }

    fn next_attempt(&self, id: TicketId) -> TicketId {
        id.attempt(self.attempts.fetch_add(1, Ordering::Relaxed))
    }
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

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quorum").field("name", &self.name).finish_non_exhaustive()
    }
}
