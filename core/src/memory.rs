//! The memory engine: lines in a map. It is the reference for all other engines.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::contract::guarantees::{EventDelivery, Guarantees, Liveness, TokenDurability};
use crate::errors::checked_sum;
use crate::event::{Cursor, Event, EventBatch, EventKind, Scope};
use crate::line::{Count, Journal, LineEvent, LineObserver};
use crate::sync::replaced::{Mutex, MutexGuard};
use crate::wake::{WakeRegistry, wake_all};
use crate::{
    Clock, CounterValue, Engine, Expiry, Key, LeaveMode, LeaveOutcome, Line, Place, Result,
    SystemClock, Ticket, TicketId, TicketState, Time, WaitMode, Wake, Window,
};

/// A store in this process's memory. Clones are clients of the same store.
///
/// ```
/// use tenure::engine::Memory;
/// use tenure::Locks;
///
/// # tenure::blocking::block_on(async {
/// let store = Memory::new();
/// let (here, there) = (Locks::new(store.clone()), Locks::new(store));
/// let guard = here.mutex("invoices/42").lock().await?;
/// assert!(there.mutex("invoices/42").try_lock().await?.is_none());
/// guard.release().await?;
/// assert!(there.mutex("invoices/42").try_lock().await?.is_some());
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Memory(Arc<Shared>);

struct Shared {
    clock: Box<dyn Clock>,
    /// The wall clock when the store was made, in microseconds since 1970. Later times follow the
    /// boot clock, which cannot be set.
    opened_us: u64,
    opened: Time,
    store: Mutex<Store>,
    bells: WakeRegistry,
}

#[derive(Default)]
struct Store {
    lines: HashMap<Key, Line>,
    /// Larger than every number of the forgotten lines, which were empty.
    floor: u64,
    sequences: HashMap<Key, u64>,
    values: HashMap<Key, String>,
    counts: HashMap<Key, Count>,
    /// With this many counts, those with an ended window are removed.
    counts_full: usize,
    journal: Journal,
    written: Arc<Notify>,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::with_clock(SystemClock)
    }

    /// An empty store with this clock.
    pub fn with_clock(clock: impl Clock) -> Self {
        let (opened_us, opened) = (clock.wall_us(), clock.now());
        Self(Arc::new(Shared {
            clock: Box::new(clock),
            opened_us,
            opened,
            store: Mutex::default(),
            bells: WakeRegistry::default(),
        }))
    }

    fn now(&self) -> u64 {
        let passed = self.0.clock.now().boot_ns.saturating_sub(self.0.opened.boot_ns) / 1000;
        self.0.opened_us + passed
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs one step on one line, wakes the tickets that it concerns, and forgets an empty
    /// line.
    fn step<T>(
        &self,
        key: &Key,
        act: impl FnOnce(&mut Line, u64, &mut LineObserver<'_>) -> T,
    ) -> T {
        let now = self.now();
        let mut concerned: Vec<TicketId> = Vec::new();
        let mut written = None;
        let answer = {
            let mut store = self.store();
            // Read under the lock. A watcher subscribes first and reads then: it either sees this
            // step, or is subscribed here.
            let quiet = self.0.bells.is_quiet();
            let Store { lines, floor, journal, written: told, .. } = &mut *store;
            let mut line = match lines.entry(key.clone()) {
                Entry::Occupied(line) => line,
                Entry::Vacant(nobody) => nobody.insert_entry(Line::above(*floor)),
            };
            let answer = act(line.get_mut(), now, &mut |happened| {
                let LineEvent { kind: what, slot: seat, .. } = happened;
                if !quiet && !matches!(what, EventKind::Joined | EventKind::Changed) {
                    concerned.push(seat.ticket.id);
                }
                if journal.is_kept() {
                    let (ticket, number) = (seat.ticket.clone(), seat.number);
                    journal.push(Event::new(what, now, ticket, number));
                    written = Some(told.clone());
                }
            });
            if line.get().is_empty() {
                *floor = line.get().last().max(*floor);
                line.remove();
            }
            answer
        };
        // After the lock is released, because a waker may call the store again.
        for id in concerned {
            self.0.bells.notify(id);
        }
        if let Some(written) = written {
            wake_all(&written);
        }
        answer
    }

    /// The wake-up for a watcher that saw the ticket in state `seen`.
    fn differs(&self, ticket: &Ticket, seen: TicketState) -> Option<Wake> {
        let place = self.step(&ticket.key, |line, now, tell| {
            line.expire(now, tell);
            line.find_place(ticket.id, now)
        });
        match place {
            Some(place) if place.leaving => Some(Wake::Look),
            Some(place) if place.state == seen => None,
            Some(place) => Some(Wake::Served(place.number)),
            None => Some(Wake::Look),
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for Memory {
    fn guarantees(&self) -> Guarantees {
        let mut guarantees = Guarantees::new("memory", Liveness::Process);
        guarantees.store = "the memory of this program".into();
        guarantees.fair = true;
        guarantees.push = true;
        guarantees.events = EventDelivery::Every;
        guarantees.fencing = TokenDurability::Volatile;
        guarantees.survives.holder_pause = true;
        guarantees.survives.clock_step = true;
        guarantees.survives.full_memory = true;
        guarantees.rounding = Duration::from_micros(1);
        guarantees.answers_within = Duration::from_secs(1);
        guarantees.quick = true;
        guarantees
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        self.step(&ticket.key, |line, now, tell| {
            line.join(ticket, (), patience, Expiry::ByTtl, now, tell)
        })
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        Ok(self.step(&ticket.key, |line, now, tell| line.renew(ticket, now, tell)))
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        Ok(self.step(&ticket.key, |line, now, tell| line.leave(ticket.id, how, now, tell)))
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        let bell = self.0.bells.subscribe(ticket.id);
        let mut rung = pin!(bell.notified());
        rung.as_mut().enable();
        if let Some(wake) = self.differs(ticket, seen) {
            return Ok(wake);
        }
        rung.await;
        Ok(self.differs(ticket, seen).unwrap_or(Wake::Look))
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        let Some(Cursor(mut after)) = after else {
            let cursor = Cursor(self.store().journal.keep());
            return Ok(EventBatch { events: Vec::new(), cursor, missed: false });
        };
        let written = self.store().written.clone();
        loop {
            let mut next = pin!(written.notified());
            next.as_mut().enable();
            let (events, end) = {
                let store = self.store();
                (store.journal.since(after, scope), store.journal.end())
            };
            let missed = events.is_none();
            let events = events.unwrap_or_default();
            if missed || !events.is_empty() {
                return Ok(EventBatch { events, cursor: Cursor(end), missed });
            }
            after = end;
            next.await;
        }
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        Ok(self.step(key, |line, now, tell| {
            line.expire(now, tell);
            line.list(now)
        }))
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let mut keys: Vec<Key> = {
            let store = self.store();
            store.lines.keys().filter(|key| key.as_str().starts_with(prefix)).cloned().collect()
        };
        keys.retain(|key| {
            self.step(key, |line, now, tell| {
                line.expire(now, tell);
                !line.is_empty()
            })
        });
        keys.sort_unstable();
        Ok(keys)
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        let now = self.now();
        let mut store = self.store();
        match window {
            None => store.next(key, by),
            Some(window) => store.count(key, by, window, now),
        }
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        Ok(crate::line::swap(&mut self.store().values, key, seen, value))
    }

    async fn close(&self) {}
}

impl Store {
    fn next(&mut self, key: &Key, by: u64) -> Result<CounterValue> {
        let last = self.sequences.get(key).copied().unwrap_or(0);
        let value = checked_sum(key, last, by)?;
        if by > 0 {
            self.sequences.insert(key.clone(), value);
        }
        Ok(CounterValue::of_sequence(value))
    }

    fn count(&mut self, key: &Key, by: u64, window: Window, now: u64) -> Result<CounterValue> {
        if self.counts.len() > self.counts_full {
            self.counts.retain(|_, count| count.ends_us > now);
            self.counts_full = (self.counts.len() * 2).max(1024);
        }
        let stored = self.counts.get(key).copied();
        let (count, changed) = Count::add(stored, key, by, window, now)?;
        if let Some(count) = changed {
            self.counts.insert(key.clone(), count);
        }
        Ok(count)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}
