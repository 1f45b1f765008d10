//! The store as records: the template for a database with transactions.
//!
//! A real store has a transaction where this has a mutex. It locks the row, reads the clock, calls
//! `decide`, updates the row, and commits.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tenure_core::line::swap;
use tenure_core::sync::Mutex;
use tenure_core::{CounterValue, Guarantees, Key, Result, Runtime, Window};
use tenure_record::{
    Decide, FoundRecord, Inbox, LineRecord, LoneStep, NOTICES_MAX, RecordNotice, RecordStore,
};
use tokio::sync::mpsc;

use crate::StoreClock;
use crate::table::{Counters, Values};

/// Records in a map. Clones are clients of the same store.
#[derive(Clone)]
pub struct ToyRecords(Arc<(Mutex<RecordTables>, StoreClock)>);

#[derive(Default)]
struct RecordTables {
    lines: BTreeMap<Key, LineRecord>,
    counters: Counters,
    values: Values,
    listeners: HashMap<Inbox, mpsc::Sender<RecordNotice>>,
}

impl ToyRecords {
    /// An empty store with the clock of this runtime.
    pub fn on(host: Arc<dyn Runtime>) -> Self {
        Self(Arc::new((Mutex::default(), StoreClock::on(host))))
    }

    /// One transaction. The clock is read under the lock.
    fn transaction<T>(&self, act: impl FnOnce(&mut RecordTables, u64) -> T) -> T {
        let (tables, clock) = &*self.0;
        let mut tables = tables.lock();
        act(&mut tables, clock.now_us())
    }
}

impl RecordTables {
    fn find(&self, key: &Key, now_us: u64) -> FoundRecord {
        let record = self.lines.get(key).cloned();
        FoundRecord { record, now_us, floor: now_us, serve_from_us: 0 }
    }

    fn send(&mut self, notice: RecordNotice) {
        let Some(listener) = self.listeners.get(&notice.inbox) else { return };
        if listener.try_send(notice).is_err() {
            // The client sees the end of its channel, and reads its lines.
            self.listeners.remove(&notice.inbox);
        }
    }
}

impl RecordStore for ToyRecords {
    fn guarantees(&self) -> Guarantees {
        crate::guarantees()
    }

    async fn step(
        &self,
        key: &Key,
        lone: Option<&LoneStep>,
        decide: &mut Decide<'_>,
    ) -> Result<Option<u64>> {
        Ok(self.transaction(|tables, now_us| {
            let found = tables.find(key, now_us);
            if let Some(record) = lone.and_then(|lone| lone.record_after(&found)) {
                let number = record.last;
                tables.lines.insert(key.clone(), record);
                return Some(number);
            }
            if let Some(change) = decide(&found) {
                tables.lines.insert(key.clone(), change.record);
                change.notices.into_iter().for_each(|notice| tables.send(notice));
            }
            None
        }))
    }

    async fn read(&self, key: &Key) -> Result<FoundRecord> {
        Ok(self.transaction(|tables, now_us| tables.find(key, now_us)))
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        Ok(self.transaction(|tables, now_us| {
            let found = tables.lines.iter().filter(|(key, record)| {
                key.as_str().starts_with(prefix) && record.ends_us > now_us
            });
            found.map(|(key, _)| key.clone()).collect()
        }))
    }

    async fn listen(&self, inbox: Inbox) -> Result<Option<mpsc::Receiver<RecordNotice>>> {
        let (sender, receiver) = mpsc::channel(NOTICES_MAX);
        self.transaction(|tables, _| tables.listeners.insert(inbox, sender));
        Ok(Some(receiver))
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        self.transaction(|tables, now_us| tables.counters.add(key, by, window, now_us))
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        Ok(self.transaction(|tables, _| swap(&mut tables.values, key, seen, value)))
    }

    async fn sweep(&self, idle: Duration) -> Result<()> {
        self.transaction(|tables, now_us| {
            tables.lines.retain(|_, record| !record.is_orphan(idle, now_us, now_us));
        });
        Ok(())
    }

    async fn close(&self) {}
}
