//! What claims pass over: documents that cannot be locked, and for most of the time those that were put off.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mongodb::bson::{Bson, Document, doc};
use tokio::sync::OnceCell;

/// How long queues of this client leave out a document that cannot be locked.
pub(super) const UNFIT_REST: Duration = Duration::from_secs(60);
/// The documents that are left out at most. Of more, the first ones are tried again before their time.
const PASSED_OVER_MAX: usize = 256;
/// How often a worker looks for documents that were put off before it looks for others. It always does after these.
const PUT_OFF_LOOK: Duration = Duration::from_secs(1);

/// Documents that cannot be locked, and until when queues leave them out.
#[derive(Default)]
pub(crate) struct PassedOver(Mutex<VecDeque<(Bson, Instant)>>);

impl PassedOver {
    pub(super) fn add(&self, id: Bson) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= PASSED_OVER_MAX {
            all.pop_front();
        }
        all.push_back((id, Instant::now() + UNFIT_REST));
    }

    /// The filter of a queue without them.
    pub(super) fn left_out(&self, filter: &Document) -> Vec<Document> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

/// When this client last looked in vain for documents that were put off.
#[derive(Debug, Default)]
pub(crate) struct PutOffLooks {
    last: Mutex<Option<Instant>>,
    /// Whether an index tells which documents were put off. Without one a look for them reads all that match.
    pub(super) is_indexed: OnceCell<bool>,
}

impl PutOffLooks {
    /// Whether a worker looks for them first: so they come although other documents always match.
    pub(super) fn is_due(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.get_or_insert_with(Instant::now).elapsed() >= PUT_OFF_LOOK
    }

    pub(super) fn looked(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}
