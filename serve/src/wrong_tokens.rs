//! The record of requests with a wrong token.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::Semaphore;

/// Maximum requests that pause at the same time.
const PAUSES_MAX: usize = 64;
/// Minimum interval between two records.
const RECORD_EACH: Duration = Duration::from_secs(1);

/// The record of requests with a wrong token, for an audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WrongTokenRecord {
    /// The address of the last of their clients, if the server knows it.
    pub from: Option<String>,
    /// The number of these requests since the last record.
    pub count: u64,
}

/// Counts requests with a wrong token.
#[derive(Debug)]
pub(crate) struct WrongTokens {
    counts: Mutex<Counts>,
    /// A permit for each request that pauses before it is refused. Further ones are refused at
    /// once.
    pub(crate) pauses: Semaphore,
}

#[derive(Debug, Default)]
struct Counts {
    unrecorded: u64,
    /// The client of the last of them.
    from: Option<String>,
    recorded_at: Option<Instant>,
}

impl Default for WrongTokens {
    fn default() -> Self {
        Self { counts: Mutex::default(), pauses: Semaphore::new(PAUSES_MAX) }
    }
}

impl WrongTokens {
    /// Counts a request of this client.
    pub(crate) fn count(&self, from: Option<&str>) {
        let mut counts = self.counts();
        counts.unrecorded += 1;
        counts.from = from.map(str::to_owned);
    }

    /// Returns a record of the requests that have none, if the last record is old enough.
    pub(crate) fn record(&self, now: Instant) -> Option<WrongTokenRecord> {
        let mut counts = self.counts();
        let is_early = counts.recorded_at.is_some_and(|at| now.duration_since(at) < RECORD_EACH);
        if is_early || counts.unrecorded == 0 {
            return None;
        }
        counts.recorded_at = Some(now);
        let (from, count) = (counts.from.take(), std::mem::take(&mut counts.unrecorded));
        Some(WrongTokenRecord { from, count })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_record_a_second_with_the_number_of_requests() {
        let (tokens, began) = (WrongTokens::default(), Instant::now());
        let record = |after| tokens.record(began + after).map(|record| record.count);
        tokens.count(None);
        assert_eq!(record(Duration::ZERO), Some(1));
        tokens.count(None);
        tokens.count(None);
        assert_eq!(record(RECORD_EACH / 2), None);
        assert_eq!(record(RECORD_EACH), Some(2));
        assert_eq!(record(RECORD_EACH * 2), None, "there was none");
    }
}
