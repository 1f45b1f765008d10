//! A store of records in memory that counts its operations, stands still, and loses notices.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tenure_core::sync::Mutex;
use tenure_core::{CounterValue, Error, Guarantees, Key, Result, Runtime, Window};
use tenure_record::{
    Decide, FoundRecord, Inbox, LoneStep, NOTICES_MAX, RecordEngine, RecordNotice, RecordStore,
};
use tenure_toy::ToyRecords;
use tokio::sync::{mpsc, watch};

/// Maximum operations of a client at a time.
pub(crate) const CALLS_MAX: usize = 4;

/// Clones are clients of the same store.
#[derive(Clone)]
pub(crate) struct Scripted(Arc<Script>);

pub(crate) struct Script {
    rows: ToyRecords,
    /// Whether notices are delivered.
    pub(crate) pushes: bool,
    /// While it is set, every step, read, join and addition stands still.
    is_frozen: watch::Sender<bool>,
    listeners: Mutex<HashMap<Inbox, mpsc::Sender<RecordNotice>>>,
    /// Whether no addition is answered.
    pub(crate) adds_hang: AtomicBool,
    /// The time before which no further ticket is served.
    pub(crate) serve_from_us: AtomicU64,
    /// The format in which records seem to be written, if it is not 0.
    pub(crate) format: AtomicU64,
    /// Whether the answer to the next step is lost.
    pub(crate) loses_answer: AtomicBool,
    /// Whether the write of each first decision is refused. No further ticket is served at the
    /// second.
    pub(crate) decides_twice: AtomicBool,
    /// Whether each channel of notices ends as soon as it is open.
    pub(crate) ends_channels: AtomicBool,
    pub(crate) steps: AtomicUsize,
    pub(crate) reads: AtomicUsize,
    pub(crate) lone_steps: AtomicUsize,
    pub(crate) adds: AtomicUsize,
    pub(crate) listens: AtomicUsize,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) in_flight_max: AtomicUsize,
}

impl Scripted {
    pub(crate) fn on(host: Arc<dyn Runtime>, pushes: bool) -> Self {
        Self(Arc::new(Script {
            rows: ToyRecords::on(host),
            pushes,
            is_frozen: watch::Sender::new(false),
            listeners: Mutex::default(),
            adds_hang: AtomicBool::default(),
            serve_from_us: AtomicU64::default(),
            format: AtomicU64::default(),
            loses_answer: AtomicBool::default(),
            decides_twice: AtomicBool::default(),
            ends_channels: AtomicBool::default(),
            steps: AtomicUsize::default(),
            reads: AtomicUsize::default(),
            lone_steps: AtomicUsize::default(),
            adds: AtomicUsize::default(),
            listens: AtomicUsize::default(),
            in_flight: AtomicUsize::default(),
            in_flight_max: AtomicUsize::default(),
        }))
    }

    pub(crate) fn client(&self, host: Arc<dyn Runtime>) -> RecordEngine<Self> {
        RecordEngine::new(self.clone(), host, CALLS_MAX)
    }

    pub(crate) fn freeze(&self, is_frozen: bool) {
        self.is_frozen.send_replace(is_frozen);
    }

    /// Ends all channels, and loses the notices until a client listens again.
    pub(crate) fn cut(&self) {
        self.listeners.lock().clear();
    }

    async fn enter(&self, count: &AtomicUsize) -> InFlight<'_> {
        count.fetch_add(1, SeqCst);
        let now = self.in_flight.fetch_add(1, SeqCst) + 1;
        self.in_flight_max.fetch_max(now, SeqCst);
        let entered = InFlight(&self.in_flight);
        self.is_frozen.subscribe().wait_for(|is_frozen| !is_frozen).await.unwrap();
        entered
    }

    /// Whether steps see other records than those of the rows, or decide twice.
    fn is_altered(&self) -> bool {
        self.format.load(SeqCst) > 0 || self.decides_twice.load(SeqCst)
    }

    fn seen(&self, found: &FoundRecord) -> FoundRecord {
        let mut found =
            FoundRecord { serve_from_us: self.serve_from_us.load(SeqCst), ..found.clone() };
        let format = self.format.load(SeqCst).to_le_bytes()[0];
        let tickets = found.record.as_mut().map(|record| &mut record.tickets);
        if let Some(version) =
            tickets.and_then(|tickets| tickets.first_mut()).filter(|_| format > 0)
        {
            *version = format;
        }
        found
    }
}

impl std::ops::Deref for Scripted {
    type Target = Script;

    fn deref(&self) -> &Script {
        &self.0
    }
}

/// An operation in flight, also if its future is dropped.
struct InFlight<'a>(&'a AtomicUsize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl RecordStore for Scripted {
    fn guarantees(&self) -> Guarantees {
        let mut guarantees = self.rows.guarantees();
        guarantees.push = self.pushes;
        guarantees
    }

    async fn step(
        &self,
        key: &Key,
        lone: Option<&LoneStep>,
        decide: &mut Decide<'_>,
    ) -> Result<Option<u64>> {
        let _entered = self.enter(&self.steps).await;
        let mut sent = Vec::new();
        let mut scripted = |found: &FoundRecord| {
            let mut found = self.seen(found);
            if self.decides_twice.load(SeqCst) {
                decide(&found);
                found.serve_from_us = u64::MAX;
            }
            let mut change = decide(&found)?;
            sent = std::mem::take(&mut change.notices);
            Some(change)
        };
        let lone = lone.filter(|_| self.serve_from_us.load(SeqCst) == 0 && !self.is_altered());
        let number = self.rows.step(key, lone, &mut scripted).await?;
        if number.is_some() {
            self.lone_steps.fetch_add(1, SeqCst);
        }
        let listeners = self.listeners.lock();
        for notice in sent {
            if let Some(listener) = listeners.get(&notice.inbox) {
                let _ = listener.try_send(notice); // the client may have ended
            }
        }
        if self.loses_answer.swap(false, SeqCst) {
            return Err(Error::unavailable("the answer to the commit is lost"));
        }
        Ok(number)
    }

    async fn read(&self, key: &Key) -> Result<FoundRecord> {
        let _entered = self.enter(&self.reads).await;
        Ok(self.seen(&self.rows.read(key).await?))
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.rows.keys(prefix).await
    }

    async fn listen(&self, inbox: Inbox) -> Result<Option<mpsc::Receiver<RecordNotice>>> {
        self.listens.fetch_add(1, SeqCst);
        Ok(self.pushes.then(|| {
            let (sender, receiver) = mpsc::channel(NOTICES_MAX);
            if !self.ends_channels.load(SeqCst) {
                self.listeners.lock().insert(inbox, sender);
            }
            receiver
        }))
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        let _entered = self.enter(&self.adds).await;
        if self.adds_hang.load(SeqCst) {
            std::future::pending::<()>().await;
        }
        self.rows.add(key, by, window).await
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        self.rows.swap(key, seen, value).await
    }

    async fn sweep(&self, idle: Duration) -> Result<()> {
        self.rows.sweep(idle).await
    }

    async fn close(&self) {}
}
