//! `RecordStore`, the contract of a store of records, implemented by PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::sync::Mutex;
use tenure_core::{CounterValue, Guarantees, Key, NUMBER_MAX, Result, Window, errors};
use tenure_kit::{Link, ServerClient};
use tenure_record::{
    Decide, FoundRecord, FreeJoin, Inbox, LineRecord, RecordChange, RecordNotice, RecordStore,
};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_postgres::Row;

use crate::notices;
use crate::primary::{Parameter, Primary, query};
use crate::row_wait::{ROW_BACKOFF, ROW_TIMEOUT_AGAIN, RowWait};
use crate::settings::Settings;
use crate::sql::{SWEEP_MAX, Statements};
use crate::trouble::{self, SqlOutcome};

/// Tries to send a notice.
const NOTICE_TRIES_MAX: u32 = 5;

/// Time after which a waiter looks again whether the holder's transaction has ended.
const HELD_FOR: Duration = Duration::from_millis(250);

/// The least quarantine after a promotion.
const LONGEST_MIN: Duration = Duration::from_secs(60);
/// How long a longest ttl is remembered after it was used last: between this time and its double.
const LONGEST_KEPT: Duration = Duration::from_secs(3600);

/// A database as a store of records.
pub struct PostgresStore {
    link: Arc<Link<Primary>>,
    statements: Statements,
    guarantees: Guarantees,
    /// The server's clock at a moment of this process, from the last answer.
    clock: Mutex<Option<(Instant, u64)>>,
}

/// A record, and what the write of the next one compares.
struct ReadRecord {
    found: FoundRecord,
    version: i64,
    at_us: i64,
    longest_us: u64,
}

/// The result of a write.
enum Written {
    Yes,
    /// The record has changed since it was read, or the decision is too old. This is the record
    /// now, unless it has to be read again.
    Changed(Option<ReadRecord>),
    /// Another transaction has the row.
    Locked,
}

impl PostgresStore {
    /// Opens the database on the current runtime, and makes the tables if they are missing.
    pub(crate) async fn open(settings: Settings) -> Result<Self> {
        settings.check()?;
        let statements = Statements::new(&settings.quoted_schema());
        let link = Link::kept(ServerClient::new(Primary { settings }));
        let guarantees = {
            let connection = link.connection().await?;
            connection.facts.guarantees(&link.server().settings)
        };
        let store = Self { link, statements, guarantees, clock: Mutex::default() };
        crate::schema::make(&store.link, &store.statements).await?;
        Ok(store)
    }

    fn settings(&self) -> &Settings {
        &self.link.server().settings
    }

    /// Executes a statement that no other transaction can be in the way of for long.
    async fn query(&self, statement: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>> {
        let mut backoff = ROW_BACKOFF;
        loop {
            match query(&self.link, statement, parameters).await {
                Ok(rows) => return Ok(rows),
                Err(refusal) => refusal.conflict()?,
            };
            tokio::time::sleep(backoff.pause()).await;
        }
    }

    /// Executes a statement whose first parameter is the time limit for a row.
    async fn query_row(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<Row>> {
        let mut wait = RowWait::default();
        loop {
            let limit = wait.limit(false);
            let all: Vec<_> = [&[Parameter::Text(limit)], parameters].concat();
            match query(&self.link, statement, &all).await {
                Ok(rows) => return Ok(rows.into_iter().next()),
                Err(refusal) => refusal.conflict()?,
            };
            wait.pause().await;
        }
    }

    /// Reads a record. The first client after a promotion begins the quarantine.
    async fn read_record(&self, key: &Key) -> Result<ReadRecord> {
        loop {
            let rows = self.query(&self.statements.read, &[key_of(key)]).await?;
            let row = rows.first().ok_or_else(|| trouble::no_meta(self.settings()))?;
            if row.get("is_known") {
                let read = ReadRecord::of(row);
                self.set_clock(read.found.now_us);
                return Ok(read);
            }
            tracing::warn!(
                "another primary serves: no ticket is served for the longest ttl in use"
            );
            self.query(&self.statements.quarantine, &[]).await?;
        }
    }

    async fn write(
        &self,
        key: &Key,
        read: &ReadRecord,
        change: &RecordChange,
        limit: &str,
    ) -> Result<Written> {
        let RecordChange { record, serves, until_us, .. } = change;
        let is_new = read.found.record.is_none();
        let statement = match (is_new, serves) {
            (true, _) => &self.statements.insert,
            (false, true) => &self.statements.serve,
            (false, false) => &self.statements.write,
        };
        let LineRecord { at_us, last, holder, ends_us, tickets } = record;
        // A statement that a silent server carries out late is refused as well.
        let latest = read.found.now_us.saturating_add(micros(self.settings().answers_within()));
        let parameters = [
            Parameter::Text(limit),
            key_of(key),
            Parameter::Number(read.version),
            Parameter::Number(read.at_us),
            read.found.serve_from_us.into(),
            (*until_us).min(latest).into(),
            (*at_us).into(),
            (*last).into(),
            (*holder).into(),
            (*ends_us).into(),
            Parameter::Bytes(tickets),
        ];
        match query(&self.link, statement, &parameters).await {
            // A new record that another client has made before, or one that a sweep has deleted.
            Ok(rows) if rows.is_empty() => Ok(Written::Changed(None)),
            Ok(rows) => {
                let row = &rows[0];
                let is_written = is_new || row.get("is_written");
                let now = || row.get::<_, bool>("is_known").then(|| ReadRecord::of(row));
                Ok(if is_written { Written::Yes } else { Written::Changed(now()) })
            }
            Err(refusal) => Ok(match refusal.conflict()? {
                SqlOutcome::Locked => Written::Locked,
                _ => Written::Changed(None),
            }),
        }
    }

    /// Notes the longest ttl in use, before a ticket has it.
    async fn raise_longest(&self, longest_us: u64) -> Result<()> {
        self.query(&self.statements.raise_longest, &[longest_us.into()]).await.map(drop)
    }

    /// Sends notices in the background. They are hints: one that cannot be sent delays a waiter
    /// until its next renewal.
    fn send(&self, notices: &[RecordNotice]) {
        if notices.is_empty() {
            return;
        }
        let texts = notices::texts(notices);
        let link = self.link.clone();
        self.link.home().spawn(async move {
            let mut backoff = ROW_BACKOFF;
            for _ in 0..NOTICE_TRIES_MAX {
                match notices::send(&link, &texts).await {
                    Ok(()) => return,
                    Err(refusal) => tracing::debug!(?refusal, "notices are not sent"),
                }
                tokio::time::sleep(backoff.pause()).await;
            }
        });
    }

    fn set_clock(&self, now_us: u64) {
        *self.clock.lock() = Some((Instant::now(), now_us));
    }

    /// The server's clock at the time at which a request of now is no longer waited for.
    fn latest_us(&self) -> u64 {
        self.clock.lock().map_or(u64::MAX, |(at, now_us)| {
            now_us.saturating_add(micros(at.elapsed() + self.settings().answers_within()))
        })
    }
}

impl ReadRecord {
    fn of(row: &Row) -> Self {
        let version: Option<i64> = row.get("version");
        let get = |column| unsigned(row.get::<_, i64>(column));
        let record = version.map(|_| LineRecord {
            at_us: get("at_us"),
            last: get("last"),
            holder: get("holder"),
            ends_us: get("ends_us"),
            tickets: row.get("tickets"),
        });
        let [now_us, floor, serve_from_us, longest_us] =
            ["now_us", "floor", "serve_from_us", "longest_us"].map(get);
        let at_us = version.map_or(0, |_| row.get("at_us"));
        let found = FoundRecord { record, now_us, floor, serve_from_us };
        Self { found, version: version.unwrap_or(0), at_us, longest_us }
    }
}

impl RecordStore for PostgresStore {
    fn guarantees(&self) -> Guarantees {
        self.guarantees.clone()
    }

    async fn step(&self, key: &Key, decide: &mut Decide<'_>) -> Result<()> {
        let mut wait = RowWait::default();
        let mut known = None;
        loop {
            let read = match known.take() {
                Some(read) => read,
                None => self.read_record(key).await?,
            };
            let mut found = read.found.clone();
            if wait.is_long() {
                // A transaction holds the line for the last holder. Until it ends, no further
                // ticket is served, and all other requests go on.
                found.serve_from_us = found.serve_from_us.max(found.now_us + micros(HELD_FOR));
            }
            let Some(change) = decide(&found) else { return Ok(()) };
            let RecordChange { record, notices, .. } = &change;
            let longest_us = record.ends_us.saturating_sub(record.at_us);
            if longest_us > read.longest_us {
                self.raise_longest(longest_us).await?;
            }
            match self.write(key, &read, &change, wait.limit(change.serves)).await? {
                Written::Yes => {
                    self.send(notices);
                    return Ok(());
                }
                Written::Changed(now) => known = now,
                Written::Locked => wait.pause().await,
            }
        }
    }

    async fn read(&self, key: &Key) -> Result<FoundRecord> {
        self.read_record(key).await.map(|read| read.found)
    }

    async fn join_free(&self, key: &Key, join: &FreeJoin) -> Result<Option<u64>> {
        let parameters = [
            Parameter::Text(ROW_TIMEOUT_AGAIN),
            key_of(key),
            Parameter::Bytes(&join.tickets),
            join.ttl_us.into(),
            Parameter::Flag(join.is_exclusive),
            self.latest_us().into(),
        ];
        match query(&self.link, &self.statements.join_free, &parameters).await {
            Ok(rows) => Ok(rows.first().map(|row| {
                self.set_clock(unsigned(row.get("at_us")));
                unsigned(row.get("last"))
            })),
            Err(refusal) => refusal.conflict().map(|_| None),
        }
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let parameters =
            [Parameter::Bytes(prefix.as_bytes()), Parameter::BytesOrNull(after(prefix))];
        let rows = self.query(&self.statements.keys, &parameters).await?;
        let key = |row: &Row| {
            let text = String::from_utf8(row.get("key")).map_err(|_| ());
            text.and_then(|text| Key::new(text).map_err(|_| ()))
                .map_err(|()| trouble::no_key(self.settings()))
        };
        rows.iter().map(key).collect()
    }

    async fn listen(&self, inbox: Inbox) -> Result<Option<mpsc::Receiver<RecordNotice>>> {
        if !self.guarantees.push {
            return Ok(None);
        }
        notices::listen(&self.link, inbox).await.map(Some)
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        match window {
            None => self.add_to_sequence(key, by).await.map(CounterValue::of_sequence),
            Some(window) => self.add_to_count(key, by, window).await,
        }
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        let all = &self.statements;
        loop {
            let parameters = [
                key_of(key),
                Parameter::Bytes(seen.as_bytes()),
                Parameter::Bytes(value.as_bytes()),
            ];
            if let Some(row) = self.query_row(&all.swap, &parameters).await? {
                let value = String::from_utf8(row.get("value"));
                return value.map_err(|_| trouble::no_text(self.settings(), key));
            }
            if !seen.is_empty() || value.is_empty() {
                return Ok(String::new());
            }
            let first = [key_of(key), Parameter::Bytes(value.as_bytes())];
            if self.query_row(&all.insert_value, &first).await?.is_some() {
                return Ok(value.to_owned());
            }
        }
    }

    async fn sweep(&self, idle: Duration) -> Result<()> {
        let all = &self.statements;
        let idle = [micros(idle).into()];
        for (statement, parameters) in [(&all.sweep_lines, &idle[..]), (&all.sweep_counts, &[])] {
            while self.query(statement, parameters).await?.len() == SWEEP_MAX {}
        }
        let longest = [micros(LONGEST_MIN).into(), micros(LONGEST_KEPT).into()];
        self.query(&all.rotate_longest, &longest).await.map(drop)
    }

    // The connections end with the store.
    async fn close(&self) {}
}

impl PostgresStore {
    async fn add_to_sequence(&self, key: &Key, by: u64) -> Result<u64> {
        let all = &self.statements;
        if by > 0 && by <= NUMBER_MAX {
            let parameters = [key_of(key), by.into()];
            if let Some(row) = self.query_row(&all.add_to_sequence, &parameters).await? {
                return Ok(unsigned(row.get("value")));
            }
        }
        let rows = self.query(&all.read_sequence, &[key_of(key)]).await?;
        let last = rows.first().map_or(0, |row| unsigned(row.get("value")));
        // Returns the error of a sum that is too large.
        errors::checked_sum(key, last, by)
    }

    async fn add_to_count(&self, key: &Key, by: u64, window: Window) -> Result<CounterValue> {
        let all = &self.statements;
        let limit = window.limit.unwrap_or(NUMBER_MAX).min(NUMBER_MAX);
        loop {
            let parameters = [key_of(key), by.into(), micros(window.per).into(), limit.into()];
            let Some(row) = self.query_row(&all.add_to_count, &parameters).await? else {
                self.query(&all.insert_count, &[key_of(key)]).await?;
                continue;
            };
            let before = unsigned(row.get("before"));
            let wanted = errors::checked_sum(key, before, by)?;
            let allowed = window.limit.is_none_or(|limit| wanted <= limit);
            let value = if allowed { wanted } else { before };
            let resets_in = Some(Duration::from_micros(unsigned(row.get("left_us"))));
            return Ok(CounterValue::new(value, allowed, resets_in));
        }
    }
}

/// The smallest text of bytes that is larger than all with this prefix.
fn after(prefix: &str) -> Option<Vec<u8>> {
    let mut bytes = prefix.as_bytes().to_vec();
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

fn key_of(key: &Key) -> Parameter<'_> {
    Parameter::Bytes(key.as_str().as_bytes())
}

/// A number of the tables, none of which is negative.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
