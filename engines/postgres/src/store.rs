//! `RecordStore`, the contract of a store of records, implemented by PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::sync::Mutex;
use tenure_core::{CounterValue, Guarantees, Key, NUMBER_MAX, Result, Window, errors};
use tenure_kit::{Link, ServerClient};
use tenure_record::{
    Decide, FoundRecord, Inbox, LONGEST_KEPT, LONGEST_MIN, LineRecord, LoneStep, LoneVerb,
    OptimisticStore, ReadRecord, RecordChange, RecordNotice, RecordStore, RenewalBatcher, RowWait,
    RowWaits, ServerClock, WriteOutcome, counted, micros, optimistic_step,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_postgres::Row;

use crate::notices::{self, NoticeSender};
use crate::primary::{Parameter, Primary, query};
use crate::renewals::PostgresRenewals;
use crate::settings::Settings;
use crate::sql::{SWEEP_MAX, Statements, TABLE_TIMEOUT};
use crate::trouble;

/// Time limit of a patient try to get a row.
const ROW_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit of other tries.
const ROW_TIMEOUT_AGAIN: Duration = Duration::from_millis(50);
/// Time limit of the tries after [`ROW_TRIES_MANY`]: a transaction of a stranger has the row.
const ROW_TIMEOUT_LAST: Duration = Duration::from_millis(5);
const ROW_TRIES_MANY: u32 = 8;

/// A database as a store of records.
pub struct PostgresStore {
    link: Arc<Link<Primary>>,
    statements: Statements,
    guarantees: Guarantees,
    clock: ServerClock,
    row_waits: RowWaits,
    renewals: RenewalBatcher<PostgresRenewals>,
    /// `None` once the client is closed.
    notices: Mutex<Option<NoticeSender>>,
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
        let asked = Instant::now();
        let now_us = crate::schema::make(&link, &statements).await?;
        let answers_within = link.server().settings.answers_within();
        let clock = ServerClock::new(asked, now_us, answers_within);
        let row_waits = RowWaits::new(true);
        let renewals = PostgresRenewals { link: link.clone(), statement: statements.renew.clone() };
        let renewals = RenewalBatcher::new(renewals);
        let notices = Mutex::new(Some(NoticeSender::start(&link)));
        Ok(Self { link, statements, guarantees, clock, row_waits, renewals, notices })
    }

    fn settings(&self) -> &Settings {
        &self.link.server().settings
    }

    /// Executes a statement, and repeats it while another transaction is in its way. Its first
    /// parameters are the time limit for a row, and the key.
    async fn query_row(
        &self,
        statement: &str,
        key: &Key,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<Row>> {
        let mut wait = self.row_waits.begin(key);
        loop {
            match self.query_once(statement, key, &self.row_limit(&mut wait), parameters).await? {
                Some(rows) => {
                    wait.is_over();
                    return Ok(rows.into_iter().next());
                }
                None => self.pause(&mut wait).await?,
            }
        }
    }

    /// As [`query_row`](Self::query_row), once. `None`: another transaction is in its way.
    async fn query_once(
        &self,
        statement: &str,
        key: &Key,
        row_limit: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<Vec<Row>>> {
        let all: Vec<_> = [&[Parameter::Text(row_limit), key_of(key)], parameters].concat();
        match query(&self.link, statement, &all).await {
            Ok(rows) => Ok(Some(rows)),
            Err(refusal) => refusal.conflict().map(|()| None),
        }
    }

    /// The time limit of the next try for a row, as PostgreSQL reads it.
    fn row_limit(&self, wait: &mut RowWait<'_>) -> String {
        let timeout = self.settings().timeout;
        // The answers of all statements in flight must come before the client gives the connection
        // up: that of a patient one, and of 64 others.
        let limit = if wait.is_patient() {
            ROW_TIMEOUT.min(timeout / 4)
        } else if wait.tries() < ROW_TRIES_MANY && !wait.are_many() {
            ROW_TIMEOUT_AGAIN.min(timeout / 128)
        } else {
            ROW_TIMEOUT_LAST.min(timeout / 128)
        };
        // 0 would be no limit.
        format!("{}ms", limit.as_millis().max(1))
    }

    /// The record in the answer of a function.
    fn record_of(&self, row: &Row) -> ReadRecord {
        let read = record_in(row);
        self.clock.set(read.found.now_us);
        read
    }

    /// The result in the answer of a function that writes.
    fn written(&self, rows: Option<Vec<Row>>) -> Result<WriteOutcome> {
        let Some(rows) = rows else { return Ok(WriteOutcome::Locked) };
        let row = rows.first().ok_or_else(|| trouble::no_meta(self.settings()))?;
        if row.get("is_done") {
            self.clock.set(unsigned(row.get("now_us")));
            return Ok(WriteOutcome::Written(unsigned(row.get("last"))));
        }
        Ok(WriteOutcome::Changed(Some(self.record_of(row))))
    }
}

impl OptimisticStore for PostgresStore {
    fn row_waits(&self) -> &RowWaits {
        &self.row_waits
    }

    async fn read_record(&self, key: &Key) -> Result<ReadRecord> {
        let mut wait = self.row_waits.begin(key);
        loop {
            // It locks no row, so the row may still be locked.
            match self.query_once(&self.statements.read, key, TABLE_TIMEOUT, &[]).await? {
                Some(rows) => {
                    let row = rows.first().ok_or_else(|| trouble::no_meta(self.settings()))?;
                    return Ok(self.record_of(row));
                }
                None => self.pause(&mut wait).await?,
            }
        }
    }

    async fn pause(&self, wait: &mut RowWait<'_>) -> Result<()> {
        let locked = |key: &Key| trouble::locked_row(self.settings(), key);
        wait.pause(self.settings().timeout * 2, locked).await
    }

    async fn write_alone(
        &self,
        key: &Key,
        step: &LoneStep,
        wait: &mut RowWait<'_>,
    ) -> Result<WriteOutcome> {
        let all = &self.statements;
        let (tickets, ttl) = (Parameter::Bytes(&step.tickets), step.ttl_us.into());
        let rows = match step.verb {
            LoneVerb::Join => {
                let is_exclusive = Parameter::Flag(step.is_exclusive);
                let parameters = [tickets, ttl, is_exclusive, self.clock.latest_us().into()];
                self.query_once(&all.join, key, &self.row_limit(wait), &parameters).await?
            }
            LoneVerb::Renew => self.renewals.renew(key, step).await?.map(|row| vec![row]),
            LoneVerb::Leave => {
                self.query_once(&all.leave, key, &self.row_limit(wait), &[tickets]).await?
            }
        };
        self.written(rows)
    }

    async fn write(
        &self,
        key: &Key,
        read: &ReadRecord,
        change: &RecordChange,
        wait: &mut RowWait<'_>,
    ) -> Result<WriteOutcome> {
        let RecordChange { record, serves, until_us, .. } = change;
        let LineRecord { at_us, last, holder, ends_us, tickets } = record;
        let parameters = [
            Parameter::Number(read.version),
            Parameter::Number(read.at_us),
            read.found.serve_from_us.into(),
            // A statement that a silent server carries out late is refused as well.
            (*until_us).min(self.clock.latest_after(read.found.now_us)).into(),
            Parameter::Flag(*serves),
            (*at_us).into(),
            (*last).into(),
            (*holder).into(),
            (*ends_us).into(),
            Parameter::Bytes(tickets),
        ];
        let limit = self.row_limit(wait);
        let rows = self.query_once(&self.statements.write, key, &limit, &parameters).await?;
        let is_held =
            rows.as_ref().and_then(|rows| rows.first()).is_some_and(|it| it.get("is_held"));
        let outcome = self.written(rows)?;
        if let (WriteOutcome::Written(_), Some(sender)) = (&outcome, &*self.notices.lock()) {
            sender.send(&change.notices);
        }
        Ok(match outcome {
            WriteOutcome::Changed(read) if is_held => WriteOutcome::Held(read),
            outcome => outcome,
        })
    }
}

impl RecordStore for PostgresStore {
    fn guarantees(&self) -> Guarantees {
        self.guarantees.clone()
    }

    async fn step(
        &self,
        key: &Key,
        lone: Option<&LoneStep>,
        decide: &mut Decide<'_>,
    ) -> Result<Option<u64>> {
        optimistic_step(self, key, lone, decide).await
    }

    async fn read(&self, key: &Key) -> Result<FoundRecord> {
        self.read_record(key).await.map(|read| read.found)
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let parameters = [
            Parameter::Text(TABLE_TIMEOUT),
            Parameter::Bytes(prefix.as_bytes()),
            Parameter::BytesOrNull(after(prefix)),
        ];
        let rows = match query(&self.link, &self.statements.keys, &parameters).await {
            Ok(rows) => rows,
            Err(refusal) => {
                refusal.conflict()?;
                return Err(trouble::locked_table(self.settings()));
            }
        };
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
        let parameters = [Parameter::Bytes(seen.as_bytes()), Parameter::Bytes(value.as_bytes())];
        let row = self.query_row(&self.statements.swap, key, &parameters).await?;
        let value = String::from_utf8(row.map_or_else(Vec::new, |row| row.get("value")));
        value.map_err(|_| trouble::no_text(self.settings(), key))
    }

    async fn sweep(&self, idle: Duration) -> Result<()> {
        let times = [idle, LONGEST_MIN, LONGEST_KEPT].map(|time| Parameter::from(micros(time)));
        let parameters = [&[Parameter::Text(TABLE_TIMEOUT)], &times[..]].concat();
        loop {
            let rows = query(&self.link, &self.statements.sweep, &parameters).await;
            let deleted = match rows {
                Ok(rows) => rows.first().map_or(0, |row| unsigned(row.get("deleted"))),
                // The next sweep may have more luck.
                Err(refusal) => return refusal.conflict(),
            };
            if deleted < SWEEP_MAX {
                return Ok(());
            }
        }
    }

    async fn close(&self) {
        // The next waiter of a lock that was released needs its notice.
        let sender = self.notices.lock().take();
        if let Some(sender) = sender
            && timeout(self.settings().timeout, sender.finish()).await.is_err()
        {
            tracing::debug!("the client closes before its notices are sent");
        }
        self.link.close();
    }
}

impl PostgresStore {
    async fn add_to_sequence(&self, key: &Key, by: u64) -> Result<u64> {
        // 0 reads the last number. A number that is too large is refused below.
        let added = if by > NUMBER_MAX { 0 } else { by };
        let row = self.query_row(&self.statements.add_to_sequence, key, &[added.into()]).await?;
        let (is_done, value) =
            row.map_or((false, 0), |row| (row.get("is_done"), unsigned(row.get("value"))));
        if is_done { Ok(value) } else { errors::checked_sum(key, value, by) }
    }

    async fn add_to_count(&self, key: &Key, by: u64, window: Window) -> Result<CounterValue> {
        let limit = window.limit.unwrap_or(NUMBER_MAX).min(NUMBER_MAX);
        // A number that is too large is refused below.
        let added = if by > NUMBER_MAX { 0 } else { by };
        let window_us = micros(window.per).min(NUMBER_MAX);
        let parameters = [added.into(), window_us.into(), limit.into()];
        let row = self.query_row(&self.statements.add_to_count, key, &parameters).await?;
        let get = |column| row.as_ref().map_or(0, |row| unsigned(row.get(column)));
        counted(key, get("before"), by, window, get("left_us"))
    }
}

fn record_in(row: &Row) -> ReadRecord {
    let version: Option<i64> = row.get("version");
    let get = |column| unsigned(row.get::<_, i64>(column));
    let record = version.map(|_| LineRecord {
        at_us: get("at_us"),
        last: get("last"),
        holder: get("holder"),
        ends_us: get("ends_us"),
        tickets: row.get("tickets"),
    });
    let [now_us, floor, serve_from_us] = ["now_us", "floor", "serve_from_us"].map(get);
    let at_us = version.map_or(0, |_| row.get("at_us"));
    let found = FoundRecord { record, now_us, floor, serve_from_us };
    ReadRecord { found, version: version.unwrap_or(0), at_us }
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
pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
