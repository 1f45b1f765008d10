//! A map by records that stays small, and the turns of commands that change one record.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tenure_core::sync::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Minimum number of records at which those without a use are removed.
pub(crate) const RECORDS_FULL: usize = 1024;
/// Maximum calls in flight for one record: while one waits for its majority, the next is carried
/// out.
const AT_ONCE: usize = 2;

/// A value for each record. When their number has doubled, those without a use are removed.
pub(crate) struct RecordMap<V> {
    pub(crate) all: HashMap<String, V>,
    full: usize,
}

impl<V> Default for RecordMap<V> {
    fn default() -> Self {
        Self { all: HashMap::new(), full: RECORDS_FULL }
    }
}

impl<V> RecordMap<V> {
    /// Makes room for one more record.
    pub(crate) fn make_room(&mut self, mut is_used: impl FnMut(&mut V) -> bool) {
        if self.all.len() >= self.full {
            self.all.retain(|_, value| is_used(value));
            self.full = RECORDS_FULL.max(self.all.len() * 2);
        }
    }
}

/// Limits how many of a client's commands change one record at the same time.
///
/// MongoDB lets many commands try to change a record at once. All but one of them fail inside the
/// server and begin anew. With a hundred of them it does little else.
#[derive(Default)]
pub(crate) struct RecordTurns(Mutex<RecordMap<Weak<Semaphore>>>);

impl RecordTurns {
    /// Waits for a turn at this record, in the order of the calls. The turn ends when the permit is
    /// dropped.
    pub(crate) async fn wait(&self, record: &str) -> OwnedSemaphorePermit {
        self.of(record).acquire_owned().await.expect("the semaphore is never closed")
    }

    fn of(&self, record: &str) -> Arc<Semaphore> {
        let mut records = self.0.lock();
        if let Some(turns) = records.all.get(record).and_then(Weak::upgrade) {
            return turns;
        }
        records.make_room(|turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        records.all.insert(record.to_owned(), Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_record_is_changed_by_a_few_at_a_time_and_others_do_not_wait_for_it() {
        let turns = RecordTurns::default();
        let held: Vec<_> = (0..AT_ONCE).map(|_| turns.wait("a").now_or_never().unwrap()).collect();
        assert!(turns.wait("a").now_or_never().is_none());
        assert!(turns.wait("b").now_or_never().is_some());
        drop(held);
        assert!(turns.wait("a").now_or_never().is_some());
    }

    #[test]
    fn records_that_nobody_changes_are_thrown_out() {
        let turns = RecordTurns::default();
        for record in 0..RECORDS_FULL * 3 {
            drop(turns.wait(&record.to_string()).now_or_never().unwrap());
        }
        assert!(turns.0.lock().all.len() <= RECORDS_FULL);
    }
}
