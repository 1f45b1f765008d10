//! The step of a store that reads a record, and compares it when it writes the next one.

use std::future::Future;
use std::time::Duration;

use tenure_core::{Key, Result};

use crate::contract::{Decide, FoundRecord, LoneStep, RecordChange};
use crate::format::micros;
use crate::row_wait::{ROW_BACKOFF, RowWait, RowWaits};

/// Writes of other clients in a row after which a step pauses before it tries again.
const CHANGES_MAX: u32 = 3;
/// Time after which a waiter looks again whether the holder's transaction has ended.
const HELD_FOR: Duration = Duration::from_millis(250);

/// A record as a client read it, with the columns that a write compares.
#[derive(Debug)]
pub struct ReadRecord {
    /// The record and the clock.
    pub found: FoundRecord,
    /// The version of the row, or 0 if there is none.
    pub version: i64,
    /// [`LineRecord::at_us`](crate::LineRecord::at_us) as it stands in the row.
    pub at_us: i64,
}

/// The result of one write.
#[derive(Debug)]
pub enum WriteOutcome {
    /// The record was written. This is its `last`.
    Written(u64),
    /// The row has another record, or the decision is too old. Some answers have the record as it
    /// is now.
    Changed(Option<ReadRecord>),
    /// A transaction holds the line for the last holder, so no further ticket may be served.
    Held(Option<ReadRecord>),
    /// Another transaction has the row.
    Locked,
}

/// A store whose writes compare the record that they replace.
pub trait OptimisticStore: Sync {
    /// The rows that other transactions had at the last try.
    fn row_waits(&self) -> &RowWaits;

    /// Tries a [`LoneStep`] in one trip.
    fn write_alone(
        &self,
        key: &Key,
        step: &LoneStep,
        wait: &mut RowWait<'_>,
    ) -> impl Future<Output = Result<WriteOutcome>> + Send;

    /// Reads the record of a key without a lock.
    fn read_record(&self, key: &Key) -> impl Future<Output = Result<ReadRecord>> + Send;

    /// Writes a record in the place of the one that was read, and sends the notices.
    fn write(
        &self,
        key: &Key,
        read: &ReadRecord,
        change: &RecordChange,
        wait: &mut RowWait<'_>,
    ) -> impl Future<Output = Result<WriteOutcome>> + Send;

    /// Pauses after a try that did not get the row.
    fn pause(&self, wait: &mut RowWait<'_>) -> impl Future<Output = Result<()>> + Send;
}

/// [`RecordStore::step`](crate::RecordStore::step) of such a store.
///
/// # Errors
///
/// Those of the store.
pub async fn optimistic_step<S: OptimisticStore>(
    store: &S,
    key: &Key,
    lone: Option<&LoneStep>,
    decide: &mut Decide<'_>,
) -> Result<Option<u64>> {
    let mut wait = store.row_waits().begin(key);
    let mut known = None;
    if let Some(step) = lone {
        match store.write_alone(key, step, &mut wait).await? {
            WriteOutcome::Written(last) => {
                wait.is_over();
                return Ok(Some(last));
            }
            WriteOutcome::Changed(now) | WriteOutcome::Held(now) => known = now,
            WriteOutcome::Locked => store.pause(&mut wait).await?,
        }
    }
    let (mut changes, mut backoff) = (0, ROW_BACKOFF);
    let mut is_held = false;
    loop {
        let read = match known.take() {
            Some(read) => read,
            None => store.read_record(key).await?,
        };
        let mut found = read.found.clone();
        if is_held {
            // Until the transaction ends, no further ticket is served, and all other requests go
            // on.
            found.serve_from_us = found.serve_from_us.max(found.now_us + micros(HELD_FOR));
        }
        let Some(change) = decide(&found) else { return Ok(None) };
        let outcome = store.write(key, &read, &change, &mut wait).await?;
        if !matches!(outcome, WriteOutcome::Locked) {
            wait.is_over();
        }
        match outcome {
            WriteOutcome::Written(_) => return Ok(None),
            WriteOutcome::Changed(now) => {
                known = now;
                changes += 1;
                if changes >= CHANGES_MAX {
                    // The record is old after the pause.
                    known = None;
                    tokio::time::sleep(backoff.pause()).await;
                }
            }
            WriteOutcome::Held(now) => (known, is_held) = (now, true),
            WriteOutcome::Locked => store.pause(&mut wait).await?,
        }
    }
}
