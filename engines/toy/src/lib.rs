//! A template for engines: lines in a map of this process, written from the contract of [`Engine`]
//! alone.
//!
//! [`Toy`] is one client, and [`ToyStore`] stands for the server. A real engine has a connection
//! where this has a mutex, and a script or a transaction where this calls `table`; the rest stays.
//! A store with a transaction on one record begins with [`ToyRecords`] instead.
//!
//! # Files
//!
//! | file | contents |
//! |---|---|
//! | `table` | each verb as one step on a map, with the time as an argument |
//! | `record` | the same store as records: eight operations in the place of ten verbs |

mod record;
mod table;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::line::swap;
use tenure_core::sync::Mutex;
use tenure_core::wake::WakeRegistry;
use tenure_core::{
    CounterValue, Engine, Guarantees, Key, LeaveMode, LeaveOutcome, Liveness, Place, Result,
    Runtime, Sampler, Ticket, TicketState, Time, TokenDurability, WaitMode, Wake, Window,
};

pub use record::ToyRecords;
use table::{Rows, Table};

/// Pause between two snapshots of an onlooker.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The store that all clients share. It has a clock of its own: those of clients decide nothing.
pub struct ToyStore {
    table: Mutex<Table>,
    bells: WakeRegistry,
    clock: StoreClock,
}

/// The clock of a store. It starts from the wall clock and then follows the boot clock, which
/// cannot be set.
struct StoreClock {
    host: Arc<dyn Runtime>,
    opened: Time,
    opened_us: u64,
}

impl StoreClock {
    fn on(host: Arc<dyn Runtime>) -> Self {
        let (opened, opened_us) = (host.now(), host.wall_us());
        Self { host, opened, opened_us }
    }

    /// The time in microseconds since 1970.
    fn now_us(&self) -> u64 {
        self.opened_us + (self.host.now().boot_ns - self.opened.boot_ns) / 1000
    }
}

/// One client of a store.
pub struct Toy {
    store: Arc<ToyStore>,
    host: Arc<dyn Runtime>,
    sampler: Sampler,
}

impl ToyStore {
    /// An empty store with the clock of this runtime.
    pub fn on(host: Arc<dyn Runtime>) -> Arc<Self> {
        let (table, bells) = Default::default();
        Arc::new(Self { table, bells, clock: StoreClock::on(host) })
    }

    fn table<T>(&self, act: impl FnOnce(&mut Table, u64) -> T) -> T {
        // The time is read under the lock, so that it never goes back from one step to the next.
        let mut table = self.table.lock();
        act(&mut table, self.clock.now_us())
    }
}

impl Toy {
    /// Another client of this store. Its onlookers wait on the runtime `host`.
    pub fn connect(store: &Arc<ToyStore>, host: Arc<dyn Runtime>) -> Self {
        Self { store: store.clone(), host, sampler: Sampler::new(LOOK_PAUSE) }
    }

    fn step<T>(&self, key: &Key, act: impl FnOnce(&mut Rows, u64) -> T) -> T {
        let step = |table: &mut Table, now| table.step(key, now, |rows| act(rows, now));
        let (answer, changed) = self.store.table(step);
        // The lock on the table is released here: a woken task may need it.
        for id in changed {
            self.store.bells.notify(id);
        }
        answer
    }
}

/// The guarantees of a map in a process.
fn guarantees() -> Guarantees {
    let mut guarantees = Guarantees::new("toy", Liveness::Process);
    guarantees.fair = true;
    guarantees.push = true;
    guarantees.fencing = TokenDurability::Volatile;
    guarantees.survives.holder_pause = true;
    guarantees.survives.clock_step = true;
    guarantees.survives.full_memory = true;
    guarantees.rounding = Duration::from_micros(1);
    guarantees.answers_within = Duration::from_secs(1);
    guarantees
}

impl Engine for Toy {
    fn guarantees(&self) -> Guarantees {
        let mut guarantees = guarantees();
        // No verb waits for a network. An engine with a socket leaves this false.
        guarantees.quick = true;
        guarantees
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        self.step(&ticket.key, |rows, now| rows.join(ticket, patience, now))
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        Ok(self.step(&ticket.key, |rows, now| rows.renew(ticket, now)))
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let left = self.step(&ticket.key, |rows, now| rows.leave(ticket.id, how, now));
        // The ticket's owner may be waiting too, if another client broke the ticket or removed it.
        self.store.bells.notify(ticket.id);
        Ok(left)
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        loop {
            // Subscribe first, then read: a change between the two wakes the task.
            let bell = self.store.bells.subscribe(ticket.id);
            let mut rung = pin!(bell.notified());
            rung.as_mut().enable();
            match self.step(&ticket.key, |rows, now| rows.place(ticket.id, now)) {
                None => return Ok(Wake::Look),
                Some(place) if place.leaving => return Ok(Wake::Look),
                Some(place) if place.state != seen => return Ok(Wake::Served(place.number)),
                Some(_) => rung.await,
            }
        }
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.sampler.events(self, &*self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        Ok(self.step(key, |rows, now| rows.list(now)))
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        Ok(self.store.table(|table, now| table.keys(prefix, now)))
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        self.store.table(|table, now| table.counters.add(key, by, window, now))
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        Ok(self.store.table(|table, _| swap(&mut table.values, key, seen, value)))
    }

    async fn close(&self) {}
}
