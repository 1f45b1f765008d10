//! Documents that claims pass over: those that cannot be locked, and, for most of the time, those
//! that were put off.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mongodb::bson::{Bson, Document, doc};
use tenure_core::sync::Mutex;
use tokio::sync::OnceCell;

/// Time for which queues of this client leave out a document that cannot be locked.
pub(crate) const UNFIT_REST: Duration = Duration::from_secs(60);
/// Maximum documents that are left out. If there are more, the first ones are tried again early.
const PASSED_OVER_MAX: usize = 256;
/// Interval at which a worker looks first for documents that were put off. Otherwise it looks for
/// them last.
const PUT_OFF_LOOK: Duration = Duration::from_secs(1);

/// Documents that cannot be locked, and the times until which queues leave them out.
#[derive(Default)]
pub(crate) struct PassedOver(Mutex<VecDeque<(Bson, Instant)>>);

impl PassedOver {
    pub(crate) fn add(&self, id: Bson) {
        let mut all = self.0.lock();
        if all.len() >= PASSED_OVER_MAX {
            all.pop_front();
        }
        all.push_back((id, Instant::now() + UNFIT_REST));
    }

    /// Returns the filter of a queue without these documents.
    pub(crate) fn left_out(&self, filter: &Document) -> Vec<Document> {
        let mut all = self.0.lock();
        let now = Instant::now();
        all.retain(|(_, until)| *until > now);
        let mut both = vec![filter.clone()];
        if !all.is_empty() {
            let ids: Vec<Bson> = all.iter().map(|(id, _)| id.clone()).collect();
            both.push(doc! { "_id": { "$nin": ids } });
        }
        both
    }
}

/// The time of the last look of this client that found no document that was put off.
#[derive(Debug, Default)]
pub(crate) struct PutOffLooks {
    last: Mutex<Option<Instant>>,
    /// Whether an index has `not_before`. Without one a look reads all matching documents.
    pub(crate) is_indexed: OnceCell<bool>,
}

impl PutOffLooks {
    /// Returns whether a worker looks for them first, so that they are claimed although other
    /// documents always match.
    pub(crate) fn is_due(&self) -> bool {
        let mut last = self.last.lock();
        last.get_or_insert_with(Instant::now).elapsed() >= PUT_OFF_LOOK
    }

    pub(crate) fn looked(&self) {
        *self.last.lock() = Some(Instant::now());
    }
}
