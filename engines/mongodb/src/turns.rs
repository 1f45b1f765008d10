//! Turns: how many of a client's calls change one record at the same time.
//!
//! MongoDB lets many commands try to change a record at once. All but one of them fail inside the
//! server and begin anew. With a hundred of them it does little else. So a client sends `AT_ONCE`
//! at a time, in the order of the calls.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tenure_core::sync::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum calls in flight for one record: while one waits for its majority, the next is carried
/// out.
const AT_ONCE: usize = 2;
/// Minimum number of records at which those without a call are removed.
const RECORDS_FULL: usize = 1024;

/// The semaphore of each record that has calls.
#[derive(Default)]
pub(crate) struct Turns(Mutex<Records>);

#[derive(Default)]
struct Records {
    turns: HashMap<String, Weak<Semaphore>>,
    full: usize,
}

impl Turns {
    /// Waits for a turn at this record. The turn ends when the permit is dropped.
    pub(crate) async fn wait(&self, record: &str) -> OwnedSemaphorePermit {
        self.of(record).acquire_owned().await.expect("the semaphore is never closed")
    }

    fn of(&self, record: &str) -> Arc<Semaphore> {
        let mut records = self.0.lock();
        if let Some(turns) = records.turns.get(record).and_then(Weak::upgrade) {
            return turns;
        }
        if records.turns.len() >= records.full.max(RECORDS_FULL) {
            records.turns.retain(|_, turns| turns.strong_count() > 0);
            records.full = records.turns.len() * 2;
        }
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        records.turns.insert(record.to_owned(), Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_record_is_changed_by_a_few_at_a_time_and_others_do_not_wait_for_it() {
        let turns = Turns::default();
        let held: Vec<_> = (0..AT_ONCE).map(|_| turns.wait("a").now_or_never().unwrap()).collect();
        assert!(turns.wait("a").now_or_never().is_none());
        assert!(turns.wait("b").now_or_never().is_some());
        drop(held);
        assert!(turns.wait("a").now_or_never().is_some());
    }

    #[test]
    fn records_that_nobody_changes_are_thrown_out() {
        let turns = Turns::default();
        for record in 0..RECORDS_FULL * 3 {
            drop(turns.wait(&record.to_string()).now_or_never().unwrap());
        }
        assert!(turns.0.lock().turns.len() <= RECORDS_FULL);
    }
}
