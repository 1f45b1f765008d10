//! The same as a store of records: what an engine for a database with transactions begins with.
//!
//! A real store has a transaction where this has a mutex: it locks the row, reads the clock, calls
//! `decide`, updates the row, and commits.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tenure_core::line::Count;
use tenure_core::sync::Mutex;
use tenure_core::{
    CounterValue, Guarantees, Key, Liveness, NUMBER_MAX, Result, Runtime, Time, TokenDurability,
    Window, errors,
};
use tenure_record::{Decide, Found, FreeJoin, Inbox, NOTICES_MAX, Notice, Record, RecordStore};
use tokio::sync::mpsc;

/// A store of records in a map. Clones are clients of the same store.
#[derive(Clone)]
pub struct ToyRecords(Arc<ToyRows>);

struct ToyRows {
    tables: Mutex<Tables>,
    host: Arc<dyn Runtime>,
    opened: Time,
    opened_us: u64,
}

#[derive(Default)]
struct Tables {
    lines: BTreeMap<Key, Record>,
    sequences: HashMap<Key, u64>,
    counts: HashMap<Key, Count>,
    listeners: HashMap<Inbox, mpsc::Sender<Notice>>,
}

impl ToyRecords {
    /// An empty store that lives by the clock of this host.
    pub fn on(host: Arc<dyn Runtime>) -> Self {
        let (tables, opened, opened_us) = (Mutex::default(), host.now(), host.wall_us());
        Self(Arc::new(ToyRows { tables, host, opened, opened_us }))
    }

    /// One transaction: the clock is read under the lock.
    fn transaction<T>(&self, act: impl FnOnce(&mut Tables, u64) -> T) -> T {
        let ToyRows { tables, host, opened, opened_us } = &*self.0;
        let mut tables = tables.lock();
        let now_us = opened_us + (host.now().boot_ns - opened.boot_ns) / 1000;
        act(&mut tables, now_us)
    }

    fn find(tables: &Tables, key: &Key, now_us: u64) -> Found {
        Found { record: tables.lines.get(key).cloned(), now_us, serve_from_us: 0 }
    }
}

impl RecordStore for ToyRecords {
    fn guarantees(&self) -> Guarantees {
        let mut guarantees = Guarantees::new("toy", Liveness::Process);
        guarantees.fair = true;
        guarantees.push = true;
        guarantees.fencing = TokenDurability::Volatile;
        guarantees.survives.holder_pause = true;
        guarantees.survives.clock_step = true;
        guarantees.survives.full_memory = true;
        guarantees.rounding = Duration::from_micros(1);
        guarantees
    }

    async fn step(&self, key: &Key, decide: &mut Decide<'_>) -> Result<()> {
        self.transaction(|tables, now_us| {
            let Some(change) = decide(&Self::find(tables, key, now_us)) else { return };
            tables.lines.insert(key.clone(), change.record);
            for notice in change.notices {
                let listener = tables.listeners.get(&notice.inbox);
                // A full channel is ended, so its client looks at all its lines.
                if listener.is_some_and(|listener| listener.try_send(notice).is_err()) {
                    tables.listeners.remove(&notice.inbox);
                }
            }
        });
        Ok(())
    }

    async fn read(&self, key: &Key) -> Result<Found> {
        Ok(self.transaction(|tables, now_us| Self::find(tables, key, now_us)))
    }

    async fn join_free(&self, key: &Key, join: &FreeJoin) -> Result<Option<u64>> {
        Ok(self.transaction(|tables, now_us| {
            let record = tables.lines.entry(key.clone()).or_default();
            let is_free = record.tickets.is_empty() && record.last < NUMBER_MAX;
            is_free.then(|| {
                let number = (record.last + 1).max(now_us);
                *record = join.record(number, now_us);
                number
            })
        }))
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        Ok(self.transaction(|tables, now_us| {
            let living = tables.lines.iter().filter(|(_, record)| record.ends_us > now_us);
            living
                .map(|(key, _)| key)
                .filter(|key| key.as_str().starts_with(prefix))
                .cloned()
                .collect()
        }))
    }

    async fn listen(&self, inbox: Inbox) -> Result<Option<mpsc::Receiver<Notice>>> {
        let (sender, receiver) = mpsc::channel(NOTICES_MAX);
        self.transaction(|tables, _| tables.listeners.insert(inbox, sender));
        Ok(Some(receiver))
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        self.transaction(|tables, now_us| {
            let Some(window) = window else {
                let last = tables.sequences.get(key).copied().unwrap_or(0);
                let value = errors::checked_sum(key, last, by)?;
                tables.sequences.insert(key.clone(), value);
                return Ok(CounterValue::of_sequence(value));
            };
            let stored = tables.counts.get(key).copied();
            let (value, changed) = Count::add(stored, key, by, window, now_us)?;
            tables.counts.extend(changed.map(|count| (key.clone(), count)));
            Ok(value)
        })
    }

    async fn sweep(&self, idle: Duration) -> Result<()> {
        self.transaction(|tables, now_us| {
            tables.lines.retain(|_, record| !record.is_orphan(idle, now_us));
            tables.counts.retain(|_, count| count.ends_us > now_us);
        });
        Ok(())
    }

    async fn close(&self) {}
}
