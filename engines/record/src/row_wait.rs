//! How a verb waits for a row that another transaction has.

use std::collections::HashMap;
use std::time::Duration;

use tenure_core::sync::Mutex;
use tenure_core::{Backoff, Error, Key, Result};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Pauses between two tries to get a row.
pub const ROW_BACKOFF: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(250));
/// More locked rows than this are many.
const LOCKED_ROWS_MANY: usize = 8;
/// Maximum keys whose rows are known to be locked. If there are more, all are forgotten.
const LOCKED_ROWS_MAX: usize = 1000;
/// How long a client remembers after a try that another transaction has the row.
const LOCKED_ROW_KEPT: Duration = Duration::from_secs(10);

/// The rows of a client that other transactions had at the last try.
///
/// Other clients have a row for the time of a commit, so the first try is patient: the server waits
/// for the row. The statements of a client go over one connection, so the others wait meanwhile:
/// one verb at a time is patient. A transaction of a stranger may have the row for long, so further
/// tries are not patient. A statement that locks no row does not ask for patience.
pub struct RowWaits {
    /// The number of the last try for each key, and its time.
    tries: Mutex<HashMap<Key, (u32, Instant)>>,
    patience: Semaphore,
}

/// The tries of one verb to get a row.
pub struct RowWait<'a> {
    waits: &'a RowWaits,
    key: &'a Key,
    tries: u32,
    are_many: bool,
    patience: Option<SemaphorePermit<'a>>,
    backoff: Backoff,
    began: Instant,
}

impl RowWaits {
    /// Returns the waits of a client that knows of no locked row. Without patience no try is
    /// patient.
    pub fn new(is_patient: bool) -> Self {
        Self { tries: Mutex::default(), patience: Semaphore::new(usize::from(is_patient)) }
    }

    /// The tries of a verb go on where those of the verb before it on this key ended.
    pub fn begin<'a>(&'a self, key: &'a Key) -> RowWait<'a> {
        let (tries, are_many) = {
            let mut rows = self.tries.lock();
            // A verb that failed or was dropped leaves its key.
            rows.retain(|_, (_, at)| at.elapsed() < LOCKED_ROW_KEPT);
            (rows.get(key).map_or(0, |(tries, _)| *tries), rows.len() > LOCKED_ROWS_MANY)
        };
        let (patience, backoff, began) = (None, ROW_BACKOFF, Instant::now());
        RowWait { waits: self, key, tries, are_many, patience, backoff, began }
    }
}

impl RowWait<'_> {
    /// Whether the server waits for the row at the next try.
    pub fn is_patient(&mut self) -> bool {
        if self.tries == 0 && self.patience.is_none() {
            self.patience = self.waits.patience.try_acquire().ok();
        }
        self.patience.is_some()
    }

    /// The tries that did not get the row.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Whether other transactions have many of the rows that this client needs.
    pub fn are_many(&self) -> bool {
        self.are_many
    }

    /// Forgets the tries, because one got the row.
    pub fn is_over(&self) {
        if self.tries > 0 {
            self.waits.tries.lock().remove(self.key);
        }
    }

    /// Pauses after a try that did not get the row.
    ///
    /// # Errors
    ///
    /// `locked`, if the verb has waited for longer than this time.
    pub async fn pause(&mut self, longest: Duration, locked: impl Fn(&Key) -> Error) -> Result<()> {
        self.tries += 1;
        self.patience = None;
        {
            let mut rows = self.waits.tries.lock();
            if rows.len() >= LOCKED_ROWS_MAX {
                rows.clear();
            }
            rows.insert(self.key.clone(), (self.tries, Instant::now()));
            self.are_many = rows.len() > LOCKED_ROWS_MANY;
        }
        if self.began.elapsed() > longest {
            return Err(locked(self.key));
        }
        tokio::time::sleep(self.backoff.pause()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::{Error, Key};

    use super::{LOCKED_ROW_KEPT, LOCKED_ROWS_MANY, RowWaits};

    fn key(name: &impl ToString) -> Key {
        Key::new(name.to_string()).unwrap()
    }

    fn locked(key: &Key) -> Error {
        Error::unavailable("locked").with_key(key)
    }

    #[tokio::test(start_paused = true)]
    async fn rows_that_were_locked_are_forgotten_in_time() {
        let rows = RowWaits::new(true);
        for key in (0..=LOCKED_ROWS_MANY).map(|it| key(&it)) {
            // The verb ends without the row.
            let mut tries = rows.begin(&key);
            assert!(!tries.are_many());
            tries.pause(Duration::MAX, locked).await.unwrap();
        }
        let other = key(&"other");
        assert!(rows.begin(&other).are_many());
        tokio::time::sleep(LOCKED_ROW_KEPT + Duration::from_millis(1)).await;
        assert!(!rows.begin(&other).are_many());
        assert!(rows.tries.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_verb_at_a_time_is_patient_and_at_its_first_try_only() {
        let (rows, [one, two]) = (RowWaits::new(true), ["one", "two"].map(|it| key(&it)));
        let (mut first, mut second) = (rows.begin(&one), rows.begin(&two));
        assert!(first.is_patient() && first.is_patient() && !second.is_patient());
        first.pause(Duration::MAX, locked).await.unwrap();
        assert!(!first.is_patient() && second.is_patient());
        drop((first, second));
        assert!(!rows.begin(&one).is_patient(), "the try before got no row");
        rows.begin(&one).is_over();
        assert!(rows.begin(&one).is_patient());
        assert!(!RowWaits::new(false).begin(&one).is_patient());
    }

    #[tokio::test(start_paused = true)]
    async fn a_verb_does_not_wait_for_ever() {
        let (rows, key) = (RowWaits::new(true), key(&"k"));
        let mut tries = rows.begin(&key);
        let limit = Duration::from_secs(1);
        let error = loop {
            if let Err(error) = tries.pause(limit, locked).await {
                break error;
            }
        };
        assert_eq!(error.key(), Some(&key));
        assert!(tries.tries() > 1 && !tries.are_many());
    }
}
