//! How a verb waits for a row that another transaction has.

use std::collections::HashMap;
use std::time::Duration;

use tenure_core::sync::Mutex;
use tenure_core::{Backoff, Key, Result};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::settings::Settings;
use crate::trouble;

/// Pauses between two tries to get a row.
pub(crate) const ROW_BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(5), Duration::from_millis(250));
/// The least time limit of an answer with which the server may wait for a row: it knows whole
/// seconds only, and waits for one.
const PATIENT_MIN: Duration = Duration::from_millis(1500);
/// From more locked rows on, no try waits in the server.
const LOCKED_ROWS_MANY: usize = 8;
/// Maximum keys whose rows are known to be locked. If there are more, all are forgotten.
const LOCKED_ROWS_MAX: usize = 1000;
/// How long a client remembers after a try that another transaction has the row.
const LOCKED_ROW_KEPT: Duration = Duration::from_secs(10);

/// The rows of a client that other transactions had at the last try.
///
/// Other clients have a row for the time of a commit, so the first try waits in the server for up
/// to one second. The statements of a client go over one connection, so the others wait meanwhile:
/// one verb at a time may wait that long. A transaction of a stranger may have the row for long, so
/// further tries do not wait in the server.
pub(crate) struct LockedRows {
    /// The number of the last try for each key, and its time.
    tries: Mutex<HashMap<Key, (u32, Instant)>>,
    /// The permit to wait in the server. None with a short time limit of an answer.
    long: Semaphore,
}

/// The tries of one verb to get a row.
pub(crate) struct RowTries<'a> {
    waits: &'a LockedRows,
    key: &'a Key,
    tries: u32,
    long: Option<SemaphorePermit<'a>>,
    backoff: Backoff,
    began: Instant,
}

impl LockedRows {
    /// Returns the waits of a client with this time limit of an answer.
    pub(crate) fn new(timeout: Duration) -> Self {
        let is_patient = timeout >= PATIENT_MIN;
        Self { tries: Mutex::default(), long: Semaphore::new(usize::from(is_patient)) }
    }

    /// The tries of a verb go on where those of the verb before it on this key ended.
    pub(crate) fn begin<'a>(&'a self, key: &'a Key) -> RowTries<'a> {
        let (tries, are_many) = {
            let mut rows = self.tries.lock();
            // A verb that failed or was dropped leaves its key.
            rows.retain(|_, (_, at)| at.elapsed() < LOCKED_ROW_KEPT);
            (rows.get(key).map_or(0, |(tries, _)| *tries), rows.len() > LOCKED_ROWS_MANY)
        };
        let is_first = tries == 0 && !are_many;
        let long = if is_first { self.long.try_acquire().ok() } else { None };
        RowTries { waits: self, key, tries, long, backoff: ROW_BACKOFF, began: Instant::now() }
    }
}

impl RowTries<'_> {
    /// Whether the server waits for the row at the next try.
    pub(crate) fn is_patient(&self) -> bool {
        self.long.is_some()
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
            rows.insert(self.key.clone(), (self.tries, Instant::now()));
        }
        if self.began.elapsed() > settings.timeout * 2 {
            return Err(trouble::locked_row(settings, self.key));
        }
        tokio::time::sleep(self.backoff.pause()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::Key;

    use super::{LOCKED_ROW_KEPT, LOCKED_ROWS_MANY, LockedRows};
    use crate::settings::Settings;

    #[tokio::test(start_paused = true)]
    async fn rows_that_were_locked_are_forgotten_in_time() {
        let settings = Settings::hosts(["h"], "d").unwrap();
        let rows = LockedRows::new(settings.timeout);
        let keys = (0..=LOCKED_ROWS_MANY).map(|at| Key::new(format!("{at}")).unwrap());
        for key in keys {
            // The verb ends without the row.
            let mut tries = rows.begin(&key);
            assert!(tries.is_patient());
            tries.pause(&settings).await.unwrap();
        }
        let other = Key::new("other").unwrap();
        assert!(!rows.begin(&other).is_patient());
        tokio::time::sleep(LOCKED_ROW_KEPT + Duration::from_millis(1)).await;
        assert!(rows.begin(&other).is_patient());
        assert!(rows.tries.lock().is_empty());
    }
}
