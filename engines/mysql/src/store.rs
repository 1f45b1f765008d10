//! `RecordStore`, the contract of a store of records, implemented by MariaDB and MySQL.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::{Row, from_value_opt};
use tenure_core::{
    CounterValue, Guarantees, KEY_BYTES_MAX, Key, NUMBER_MAX, Result, Window, errors,
};
use tenure_kit::{Link, ServerClient};
use tenure_record::{
    Decide, FoundRecord, Inbox, LONGEST_KEPT, LONGEST_MIN, LineRecord, LoneStep, LoneVerb,
    OptimisticStore, ROW_BACKOFF, ReadRecord, RecordChange, RecordNotice, RecordStore,
    RenewalBatcher, RowWait, RowWaits, ServerClock, WriteOutcome, counted, micros, optimistic_step,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::notices;
use crate::primary::{MysqlPrimary, query};
use crate::renewals::{MysqlRenewals, Renewed};
use crate::settings::Settings;
use crate::sql::{Literal, Procedures, SWEEP_MAX};
use crate::trouble;

/// The least time limit of an answer with which the server may wait for a row: it knows whole
/// seconds only, and waits for one.
const PATIENT_MIN: Duration = Duration::from_millis(1500);
/// A database as a store of records.
pub struct MysqlStore {
    link: Arc<Link<MysqlPrimary>>,
    statements: Arc<Procedures>,
    guarantees: Guarantees,
    clock: ServerClock,
    row_waits: RowWaits,
    renewals: RenewalBatcher<MysqlRenewals>,
}

impl MysqlStore {
    /// Opens the database on the current runtime, and makes the tables if they are missing.
    pub(crate) async fn open(settings: Settings) -> Result<Self> {
        settings.check()?;
        let statements = Arc::new(Procedures::new(&settings.prefix));
        let row_waits = RowWaits::new(settings.timeout >= PATIENT_MIN);
        let answers_within = settings.answers_within();
        let link = Link::kept(ServerClient::new(MysqlPrimary { settings }));
        let guarantees = link.connection().await?.facts.guarantees(&link.server().settings);
        let asked = Instant::now();
        let now_us = crate::schema::make(&link, &statements).await?;
        let clock = ServerClock::new(asked, now_us, answers_within);
        let renewals = MysqlRenewals { link: link.clone(), statements: statements.clone() };
        let renewals = RenewalBatcher::new(renewals);
        Ok(Self { link, statements, guarantees, clock, row_waits, renewals })
    }

    fn settings(&self) -> &Settings {
        &self.link.server().settings
    }

    /// Calls a procedure, and repeats it while another transaction is in its way.
    async fn call<'a>(
        &self,
        procedure: &str,
        key: &Key,
        parameters: impl Fn() -> Vec<Literal<'a>>,
    ) -> Result<Option<Row>> {
        let mut wait = self.row_waits.begin(key);
        loop {
            let is_patient = Self::patience(&mut wait);
            match self.call_once(procedure, key, is_patient, &parameters()).await? {
                Some(rows) => {
                    wait.is_over();
                    return Ok(rows.into_iter().next());
                }
                None => self.pause(&mut wait).await?,
            }
            // The server's clock may be ahead of what this client knows: this reads it.
            self.read_record(key).await?;
        }
    }

    /// Whether the server waits for the row at the next try.
    fn patience(wait: &mut RowWait<'_>) -> bool {
        !wait.are_many() && wait.is_patient()
    }

    /// As [`call`](Self::call), once. `None`: another transaction is in its way. The procedure's
    /// first parameters are whether to wait for a row, and the key.
    async fn call_once(
        &self,
        procedure: &str,
        key: &Key,
        is_patient: bool,
        parameters: &[Literal<'_>],
    ) -> Result<Option<Vec<Row>>> {
        let first = [Literal::Flag(is_patient), Literal::Bytes(key.as_str().as_bytes())];
        let text = self.statements.call(procedure, &[&first, parameters].concat());
        match query(&self.link, text).await {
            Ok(rows) => Ok(Some(rows)),
            Err(refusal) => refusal.conflict().map(|()| None),
        }
    }

    /// The record in the answer of a procedure.
    fn record_of(&self, row: Option<&Row>) -> Result<ReadRecord> {
        let read = row.and_then(record_in);
        let read = read.ok_or_else(|| trouble::no_meta(self.settings()))?;
        self.clock.set(read.found.now_us);
        Ok(read)
    }

    /// The result in the answer of a procedure that writes.
    fn written(&self, rows: Option<&[Row]>) -> Result<WriteOutcome> {
        let Some(rows) = rows else { return Ok(WriteOutcome::Locked) };
        let row = rows.first();
        if row.and_then(|row| number(row, "is_held")).is_some() {
            return Ok(WriteOutcome::Held(None));
        }
        if row.and_then(|row| number(row, "is_done")) == Some(1) {
            let get = |column| row.and_then(|row| number(row, column)).unwrap_or(0);
            self.clock.set(get("now_us"));
            return Ok(WriteOutcome::Written(get("last")));
        }
        Ok(WriteOutcome::Changed(Some(self.record_of(row)?)))
    }
}

impl OptimisticStore for MysqlStore {
    fn row_waits(&self) -> &RowWaits {
        &self.row_waits
    }

    async fn read_record(&self, key: &Key) -> Result<ReadRecord> {
        let mut wait = self.row_waits.begin(key);
        loop {
            match self.call_once("read_1", key, false, &[]).await? {
                // It locks no row, so the row may still be locked.
                Some(rows) => return self.record_of(rows.first()),
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
        let (tickets, ttl) = (Literal::Bytes(&step.tickets), step.ttl_us.into());
        let rows = match step.verb {
            LoneVerb::Join => {
                let is_exclusive = Literal::Flag(step.is_exclusive);
                let parameters = [tickets, ttl, is_exclusive, self.clock.latest_us().into()];
                self.call_once("join_1", key, Self::patience(wait), &parameters).await?
            }
            LoneVerb::Renew => {
                return match self.renewals.renew(key, step).await? {
                    Some(Renewed::Alone(rows)) => self.written(Some(&rows)),
                    Some(Renewed::Yes { last, now_us }) => {
                        self.clock.set(now_us);
                        Ok(WriteOutcome::Written(last))
                    }
                    // The write may wait for the row, and the statement of many renewals may not.
                    Some(Renewed::No) | None => Ok(WriteOutcome::Changed(None)),
                };
            }
            LoneVerb::Leave => {
                self.call_once("leave_1", key, Self::patience(wait), &[tickets]).await?
            }
        };
        self.written(rows.as_deref())
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
        let notices = notices::texts(&change.notices);
        let parameters = [
            Literal::Number(read.version),
            Literal::Number(read.at_us),
            read.found.serve_from_us.into(),
            // A statement that a silent server carries out late is refused as well.
            (*until_us).min(self.clock.latest_after(read.found.now_us)).into(),
            Literal::Flag(*serves),
            (*at_us).into(),
            (*last).into(),
            (*holder).into(),
            (*ends_us).into(),
            Literal::Bytes(tickets),
            Literal::Bytes(&notices),
        ];
        let rows = self.call_once("write_1", key, Self::patience(wait), &parameters).await?;
        self.written(rows.as_deref())
    }
}

/// The record in a row. `None`: `meta` has no row.
fn record_in(row: &Row) -> Option<ReadRecord> {
    let version = signed(row, "version");
    let get = |column| number(row, column).unwrap_or(0);
    let record = version.map(|_| LineRecord {
        at_us: get("at_us"),
        last: get("last"),
        holder: get("holder"),
        ends_us: get("ends_us"),
        tickets: bytes(row, "tickets"),
    });
    let at_us = signed(row, "at_us").unwrap_or(0);
    let [now_us, floor, serve_from_us] = ["now_us", "floor", "serve_from_us"].map(get);
    let found = FoundRecord { record, now_us, floor, serve_from_us };
    (floor > 0).then(|| ReadRecord { found, version: version.unwrap_or(0), at_us })
}

impl RecordStore for MysqlStore {
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
        if prefix.len() > KEY_BYTES_MAX {
            return Ok(Vec::new());
        }
        let mut backoff = ROW_BACKOFF;
        let rows = loop {
            let keys = self.statements.call("keys_1", &[Literal::Bytes(prefix.as_bytes())]);
            match query(&self.link, keys).await {
                Ok(rows) => break rows,
                Err(refusal) => refusal.conflict()?,
            }
            tokio::time::sleep(backoff.pause()).await;
        };
        let key = |row: &Row| {
            let text = String::from_utf8(bytes(row, "key")).map_err(|_| ());
            text.and_then(|text| Key::new(text).map_err(|_| ()))
                .map_err(|()| trouble::no_key(self.settings()))
        };
        rows.iter().map(key).collect()
    }

    async fn listen(&self, inbox: Inbox) -> Result<Option<mpsc::Receiver<RecordNotice>>> {
        if !self.guarantees.push {
            return Ok(None);
        }
        notices::listen(&self.link, self.statements.clone(), inbox).await.map(Some)
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        match window {
            None => self.add_to_sequence(key, by).await.map(CounterValue::of_sequence),
            Some(window) => self.add_to_count(key, by, window).await,
        }
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        let parameters = || vec![Literal::Bytes(seen.as_bytes()), Literal::Bytes(value.as_bytes())];
        let row = self.call("swap_1", key, parameters).await?;
        let value = String::from_utf8(row.map_or_else(Vec::new, |row| bytes(&row, "value")));
        value.map_err(|_| trouble::no_text(self.settings(), key))
    }

    async fn sweep(&self, idle: Duration) -> Result<()> {
        let times = [idle, LONGEST_MIN, LONGEST_KEPT].map(|time| Literal::from(micros(time)));
        let parameters = [&[Literal::Flag(false)], &times[..]].concat();
        loop {
            let rows = query(&self.link, self.statements.call("sweep_1", &parameters)).await;
            let deleted = match rows {
                Ok(rows) => rows.first().and_then(|row| number(row, "deleted")).unwrap_or(0),
                // The next sweep may have more luck.
                Err(refusal) => return refusal.conflict(),
            };
            if deleted < SWEEP_MAX {
                return Ok(());
            }
        }
    }

    async fn close(&self) {
        self.link.close();
    }
}

impl MysqlStore {
    async fn add_to_sequence(&self, key: &Key, by: u64) -> Result<u64> {
        // 0 reads the last number. A number that is too large is refused below.
        let added = if by > NUMBER_MAX { 0 } else { by };
        let parameters = || vec![added.into(), self.clock.latest_us().into()];
        let row = self.call("add_to_sequence_1", key, parameters).await?;
        let get = |column| row.as_ref().and_then(|row| number(row, column)).unwrap_or(0);
        if get("is_done") == 1 {
            Ok(get("value"))
        } else {
            errors::checked_sum(key, get("value"), by)
        }
    }

    async fn add_to_count(&self, key: &Key, by: u64, window: Window) -> Result<CounterValue> {
        let limit = window.limit.unwrap_or(NUMBER_MAX).min(NUMBER_MAX);
        // A number that is too large is refused below.
        let added = if by > NUMBER_MAX { 0 } else { by };
        let window_us = micros(window.per);
        let parameters =
            || vec![added.into(), window_us.into(), limit.into(), self.clock.latest_us().into()];
        let row = self.call("add_to_count_1", key, parameters).await?;
        let get = |column| row.as_ref().and_then(|row| number(row, column)).unwrap_or(0);
        counted(key, get("counted"), by, window, get("left_us"))
    }
}

/// A number of an answer, or 0 if it is negative. `None`: it is NULL, or there is no such column.
pub(crate) fn number(row: &Row, column: &str) -> Option<u64> {
    signed(row, column).map(|number| u64::try_from(number).unwrap_or(0))
}

fn signed(row: &Row, column: &str) -> Option<i64> {
    let value = row.get_opt::<mysql_async::Value, _>(column)?.ok()?;
    from_value_opt::<Option<i64>>(value).ok()?
}

/// Bytes of an answer. NULL is none.
pub(crate) fn bytes(row: &Row, column: &str) -> Vec<u8> {
    let value = row.get_opt::<Option<Vec<u8>>, _>(column);
    value.and_then(Result::ok).flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::{Key, Window};
    use tenure_record::RecordStore as _;
    use tenure_servers::have;
    use tenure_servers::mariadb::{MARIADB, Server};

    use super::MysqlStore;
    use crate::Settings;

    #[tokio::test]
    async fn a_client_whose_clock_is_behind_adds() {
        if !have(&[MARIADB]) {
            return;
        }
        let server = Server::start().unwrap();
        let store = MysqlStore::open(Settings::from_url(server.url()).unwrap()).await.unwrap();
        let (key, per) = (Key::new("k").unwrap(), Duration::from_secs(3600));
        for window in [None, Some(Window { per, limit: None })] {
            // As if its machine had been suspended.
            store.clock.set(1);
            assert_eq!(store.add(&key, 1, window).await.unwrap().value, 1);
        }
    }
}
