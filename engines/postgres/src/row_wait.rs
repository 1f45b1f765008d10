//! How long a verb waits for a row that another transaction has.

use std::collections::HashMap;
use std::time::Duration;

use tenure_core::sync::Mutex;
use tenure_core::{Backoff, Key, Result};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::settings::Settings;
use crate::trouble;

/// Time limit of the first try to get a row. Other clients have it for the time of a commit, and
/// get it in turn. The statements of a client go over one connection, so the others wait meanwhile:
/// one verb at a time may wait that long.
const ROW_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit of the tries after it, and of the first try of other verbs.
const ROW_TIMEOUT_AGAIN: Duration = Duration::from_millis(50);
/// Time limit of the tries after [`ROW_TRIES_MANY`]: a transaction of a stranger has the row.
const ROW_TIMEOUT_LAST: Duration = Duration::from_millis(5);
const ROW_TRIES_MANY: u32 = 8;
/// Time limit of a statement that passes over the rows of others: only a lock on a whole table is
/// in its way.
pub(crate) const TABLE_TIMEOUT: &str = "50ms";
/// Pauses between two tries to get a row.
pub(crate) const ROW_BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(5), Duration::from_millis(250));
/// From more locked rows on, all tries for them are as short as the last.
const LOCKED_ROWS_MANY: usize = 8;
/// Maximum keys whose rows are known to be locked. If there are more, all are forgotten.
const LOCKED_ROWS_MAX: usize = 1000;

/// The rows of a client that other transactions had at the last try.
pub(crate) struct RowWaits {
    tries: Mutex<HashMap<Key, u32>>,
    /// The permit to wait for [`ROW_TIMEOUT`].
    long: Semaphore,
}

impl Default for RowWaits {
    fn default() -> Self {
        Self { tries: Mutex::default(), long: Semaphore::new(1) }
    }
}

/// The tries of one verb to get a row.
pub(crate) struct RowWait<'a> {
    waits: &'a RowWaits,
    key: &'a Key,
    tries: u32,
    long: Option<SemaphorePermit<'a>>,
    backoff: Backoff,
    began: Instant,
}

impl RowWaits {
    /// The tries of a verb go on where those of the verb before it on this key ended.
    pub(crate) fn begin<'a>(&'a self, key: &'a Key) -> RowWait<'a> {
        let tries = self.tries.lock().get(key).copied().unwrap_or(0);
        // Without a permit, the try is a short one.
        let long = if tries == 0 { self.long.try_acquire().ok() } else { None };
        RowWait { waits: self, key, tries, long, backoff: ROW_BACKOFF, began: Instant::now() }
    }

    /// Whether short tries for all the locked rows would take longer than an answer may.
    fn are_many(&self) -> bool {
        self.tries.lock().len() > LOCKED_ROWS_MANY
    }
}

impl RowWait<'_> {
    /// The time limit of the next try, as PostgreSQL reads it.
    pub(crate) fn limit(&self, settings: &Settings) -> String {
        let limit = match self.tries {
            _ if self.long.is_some() => ROW_TIMEOUT,
            tries if tries < ROW_TRIES_MANY && !self.waits.are_many() => ROW_TIMEOUT_AGAIN,
            _ => ROW_TIMEOUT_LAST,
        };
        // The answer must come before the client gives the connection up. 0 would be no limit.
        format!("{}ms", limit.min(settings.timeout / 4).as_millis().max(1))
    }

    /// Forgets the tries, because one got the row.
    pub(crate) fn is_over(&self) {
        if self.tries > 0 {
            self.waits.tries.lock().remove(self.key);
        }
    }

    /// Pauses after a try that did not get the row.
    ///
    /// # Errors
    ///
    /// The verb has waited for twice the time limit of an answer.
    pub(crate) async fn pause(&mut self, settings: &Settings) -> Result<()> {
        self.tries += 1;
        self.long = None;
        {
            let mut rows = self.waits.tries.lock();
            if rows.len() >= LOCKED_ROWS_MAX {
                rows.clear();
            }
            rows.insert(self.key.clone(), self.tries);
        }
        if self.began.elapsed() > settings.timeout * 2 {
            return Err(trouble::locked_row(settings, self.key));
        }
        tokio::time::sleep(self.backoff.pause()).await;
        Ok(())
    }
}
