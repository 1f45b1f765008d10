//! The answers of the API about keys, lines, guarantees and health.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use serde::Serialize;
use tenure_core::toolbox::known_keys;
use tenure_core::{
    Error, EventDelivery, Guarantees, Key, LineEntry, Liveness, Locks, Result, TicketState,
    TokenDurability,
};
use tokio::sync::Semaphore;

use crate::query::{LIMIT_DEFAULT, Query};
use crate::reply::HttpRefusal;
use crate::shared_answers::SharedAnswers;

/// Maximum requests to the store at a time, of all visitors together.
const READS_MAX: usize = 16;
/// Lines that one page of keys reads at once.
const LINES_AT_ONCE: usize = 8;
/// Holders of a key on a page of keys.
const HOLDERS_SHOWN: usize = 4;
/// Tickets of a line that are shown.
pub(crate) const TICKETS_SHOWN: usize = 1_000;
/// A key that no program locks: reading its line shows whether the store answers.
const HEALTH_KEY: &str = "tenure/health";

/// The keys that are known, and why there are others.
type KeyListing = (Arc<[Key]>, Option<Error>);

/// Reads the store for all visitors.
pub(crate) struct Reader {
    locks: Locks,
    reads: Semaphore,
    /// All keys of the store.
    listing: SharedAnswers<(), Result<KeyListing>>,
    pages: SharedAnswers<Query, Result<Arc<KeyPage>, HttpRefusal>>,
    health: SharedAnswers<(), Arc<Health>>,
}

/// A page of keys.
#[derive(Debug, Serialize)]
pub(crate) struct KeyPage {
    pub(crate) keys: Vec<KeyRow>,
    /// The number of keys with the prefix, on all pages.
    pub(crate) total: usize,
    /// The number of keys on the pages before.
    pub(crate) before: usize,
    /// `after` of the next page.
    pub(crate) next: Option<String>,
    /// Lines are missing whose keys are not known, for this reason.
    pub(crate) error: Option<String>,
}

/// A key, its holders and the number of its waiters.
#[derive(Debug, Serialize)]
pub(crate) struct KeyRow {
    pub(crate) key: String,
    pub(crate) holding: usize,
    pub(crate) waiting: usize,
    /// The first holders.
    pub(crate) holders: Vec<ShownTicket>,
    /// The line cannot be read, for this reason.
    pub(crate) error: Option<String>,
}

/// A line.
#[derive(Debug, Serialize)]
pub(crate) struct ShownLine {
    pub(crate) key: String,
    /// The number of tickets, of which the first [`TICKETS_SHOWN`] follow.
    pub(crate) total: usize,
    pub(crate) tickets: Vec<ShownTicket>,
}

/// A ticket, with the names of `tenure line --json` where both have a field.
#[derive(Debug, Serialize)]
pub(crate) struct ShownTicket {
    /// 1 is the front.
    pub(crate) position: usize,
    pub(crate) ticket: String,
    pub(crate) number: u64,
    pub(crate) state: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) permits: Option<ShownPermits>,
    pub(crate) owner: String,
    pub(crate) note: String,
    pub(crate) since_ms: Option<u64>,
    pub(crate) expires_in_ms: Option<u64>,
    pub(crate) ttl_ms: u64,
}

/// The permits of a semaphore's ticket.
#[derive(Debug, Serialize)]
pub(crate) struct ShownPermits {
    pub(crate) take: u32,
    pub(crate) of: u32,
}

/// Whether the store answers.
#[derive(Debug, Serialize)]
pub(crate) struct Health {
    pub(crate) healthy: bool,
    pub(crate) store: String,
    pub(crate) answered_in_ms: Option<f64>,
    pub(crate) error: Option<String>,
}

/// The guarantees of the store.
#[derive(Debug, Serialize)]
#[allow(clippy::struct_excessive_bools, reason = "each guarantee is independent")]
pub(crate) struct ShownGuarantees {
    pub(crate) engine: &'static str,
    pub(crate) store: String,
    pub(crate) tickets_live_by: &'static str,
    pub(crate) in_order: bool,
    pub(crate) push: bool,
    events: &'static str,
    pub(crate) tokens: &'static str,
    holder_crash: bool,
    holder_pause: bool,
    store_crash: bool,
    pub(crate) failover: bool,
    clock_step: bool,
    full_memory: bool,
    answers_within_ms: u64,
    warnings: Vec<String>,
}

impl Reader {
    pub(crate) fn new(locks: Locks) -> Self {
        Self {
            locks,
            reads: Semaphore::new(READS_MAX),
            listing: SharedAnswers::new(),
            pages: SharedAnswers::new(),
            health: SharedAnswers::new(),
        }
    }

    pub(crate) fn guarantees(&self) -> &Guarantees {
        self.locks.guarantees()
    }

    /// Returns a page of keys. A line that cannot be read is a row with its error.
    pub(crate) async fn keys(&self, query: &Query) -> Result<Arc<KeyPage>, HttpRefusal> {
        // The page of a browser may also name one line.
        let question = Query { key: None, ..query.clone() };
        let page = self.pages.get(question, async { self.read_page(query).await.map(Arc::new) });
        page.await
    }

    async fn read_page(&self, query: &Query) -> Result<KeyPage, HttpRefusal> {
        // A listing reads the whole store, so all queries share one.
        let listing = async {
            let (keys, error) = known_keys(self.read(self.locks.keys("")).await)?;
            Ok((Arc::from(keys), error))
        };
        let (all, error) = self.listing.get((), listing).await?;
        let keys = &all[all.partition_point(|key| key.as_str() < &*query.prefix)..];
        let keys = &keys[..keys.partition_point(|key| key.as_str().starts_with(&query.prefix))];
        let after = query.after.as_deref();
        let before = after.map_or(0, |after| keys.partition_point(|key| key.as_str() <= after));
        let shown = &keys[before..];
        let shown = &shown[..shown.len().min(query.limit.unwrap_or(LIMIT_DEFAULT))];
        let has_next = before + shown.len() < keys.len();
        let next = shown.last().filter(|_| has_next).map(Key::to_string);
        let rows: Vec<_> = shown.iter().map(|key| self.row(key)).collect();
        let rows = stream::iter(rows).buffered(LINES_AT_ONCE);
        // All tickets of a key may have left since the keys were listed.
        let rows = rows.filter(|row| {
            let is_used = row.holding + row.waiting > 0 || row.error.is_some();
            std::future::ready(is_used)
        });
        let error = error.map(|error| error.to_string());
        Ok(KeyPage { keys: rows.collect().await, total: keys.len(), before, next, error })
    }

    async fn row(&self, key: &Key) -> KeyRow {
        let (line, error) = match self.read(self.locks.line(key)).await {
            Ok(line) => (line, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let holding = line.iter().filter(|entry| entry.state == TicketState::Holding).count();
        let holders = (1..).zip(&line).filter(|(_, entry)| entry.state == TicketState::Holding);
        KeyRow {
            key: key.to_string(),
            holding,
            waiting: line.len() - holding,
            holders: holders.take(HOLDERS_SHOWN).map(ShownTicket::from).collect(),
            error,
        }
    }

    /// Returns the tickets of a key, from the front.
    pub(crate) async fn line(&self, key: &Key) -> Result<ShownLine, HttpRefusal> {
        let line = self.read(self.locks.line(key)).await?;
        Ok(ShownLine {
            key: key.to_string(),
            total: line.len(),
            tickets: (1..).zip(&line).take(TICKETS_SHOWN).map(ShownTicket::from).collect(),
        })
    }

    /// Returns whether the store answers.
    pub(crate) async fn health(&self) -> (StatusCode, Arc<Health>) {
        let health = self.health.get((), self.read_health()).await;
        let status = if health.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, health)
    }

    async fn read_health(&self) -> Arc<Health> {
        let began = Instant::now();
        let answer = self.locks.line(HEALTH_KEY).await;
        Arc::new(Health {
            healthy: answer.is_ok(),
            store: self.guarantees().store.clone(),
            answered_in_ms: answer.is_ok().then(|| began.elapsed().as_secs_f64() * 1e3),
            error: answer.err().map(|error| error.to_string()),
        })
    }

    /// Waits for its turn, so that many visitors cannot flood the store.
    async fn read<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        // The semaphore is never closed.
        let _permit = self.reads.acquire().await.ok();
        request.await
    }
}

impl From<(usize, &LineEntry)> for ShownTicket {
    fn from((position, entry): (usize, &LineEntry)) -> Self {
        let share = entry.share;
        let permits = || ShownPermits { take: share.take(), of: share.of() };
        let age = |since: SystemTime| since.elapsed().unwrap_or_default();
        Self {
            position,
            ticket: entry.id.to_string(),
            number: entry.number,
            state: entry.label(),
            kind: share.kind(),
            permits: (share.kind() == "permits").then(permits),
            owner: entry.owner.to_string(),
            note: entry.note.to_string(),
            since_ms: entry.since.map(age).map(millis),
            expires_in_ms: entry.life.map(millis),
            ttl_ms: millis(entry.ttl),
        }
    }
}

impl From<&Guarantees> for ShownGuarantees {
    fn from(all: &Guarantees) -> Self {
        Self {
            engine: all.name,
            store: all.store.clone(),
            tickets_live_by: match all.liveness {
                Liveness::Process => "process",
                Liveness::Kernel => "kernel",
                Liveness::Session => "session",
                _ => "lease",
            },
            in_order: all.fair,
            push: all.push,
            events: match all.events {
                EventDelivery::Every => "every",
                EventDelivery::Sampled => "sampled",
            },
            tokens: tokens(all.fencing),
            holder_crash: all.survives.holder_crash,
            holder_pause: all.survives.holder_pause,
            store_crash: all.survives.store_crash,
            failover: all.survives.failover,
            clock_step: all.survives.clock_step,
            full_memory: all.survives.full_memory,
            answers_within_ms: millis(all.answers_within),
            warnings: all.warnings.clone(),
        }
    }
}

/// The durability of tokens as one word.
pub(crate) fn tokens(fencing: TokenDurability) -> &'static str {
    match fencing {
        TokenDurability::Durable => "durable",
        TokenDurability::Volatile => "volatile",
        _ => "none",
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
