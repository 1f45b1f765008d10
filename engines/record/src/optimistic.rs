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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use tokio::time::Instant;

    use super::*;
    use crate::contract::LineRecord;

    /// A store whose record other clients write before each of the next writes.
    struct Contended {
        row_waits: RowWaits,
        changes: AtomicU32,
        reads: AtomicU32,
    }

    impl OptimisticStore for Contended {
        fn row_waits(&self) -> &RowWaits {
            &self.row_waits
        }

        async fn write_alone(
            &self,
            _: &Key,
            _: &LoneStep,
            _: &mut RowWait<'_>,
        ) -> Result<WriteOutcome> {
            Ok(WriteOutcome::Locked)
        }

        async fn read_record(&self, _: &Key) -> Result<ReadRecord> {
            self.reads.fetch_add(1, SeqCst);
            Ok(ReadRecord { found: FoundRecord::default(), version: 0, at_us: 0 })
        }

        async fn write(
            &self,
            key: &Key,
            _: &ReadRecord,
            _: &RecordChange,
            _: &mut RowWait<'_>,
        ) -> Result<WriteOutcome> {
            if self.changes.load(SeqCst) == 0 {
                return Ok(WriteOutcome::Written(1));
            }
            self.changes.fetch_sub(1, SeqCst);
            let now = self.read_record(key).await?;
            self.reads.fetch_sub(1, SeqCst);
            Ok(WriteOutcome::Changed(Some(now)))
        }

        async fn pause(&self, _: &mut RowWait<'_>) -> Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_pauses_after_the_third_write_of_others_and_reads_the_record_again() {
        let key = Key::new("k").unwrap();
        let change = RecordChange {
            record: LineRecord::default(),
            serves: false,
            until_us: u64::MAX,
            notices: Vec::new(),
        };
        for (changes, reads) in [(0, 1), (2, 1), (3, 2), (20, 19)] {
            let store = Contended {
                row_waits: RowWaits::new(true),
                changes: changes.into(),
                reads: 0.into(),
            };
            let began = Instant::now();
            let mut decide = |_: &FoundRecord| Some(change.clone());
            assert_eq!(optimistic_step(&store, &key, None, &mut decide).await.unwrap(), None);
            assert_eq!(began.elapsed() > Duration::ZERO, changes > 2, "{changes}");
            assert_eq!(store.reads.load(SeqCst), reads, "{changes}");
        }
    }
}
