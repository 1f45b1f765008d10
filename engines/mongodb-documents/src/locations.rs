//! Locations: the places of a collection's lines in the program's documents.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Duration;

use mongodb::bson::{Document, RawDocumentBuf, doc};
use tenure_core::sync::Mutex;
use tenure_core::{
    Clock as _, Error, ExpiringMap, Key, Loss, Result, SystemClock, Ticket, TicketId,
};
use tokio::sync::watch;

use tenure_mongodb::extension::{CompiledPipelines, FieldPrefix, Location, Steps, raw, scratch};

use crate::document_claims::DocumentClaims;
use crate::name::Named;
use crate::passed_over::{PassedOver, PutOffLooks};
use crate::path::Path;
use crate::read_results::ReadResults;
use crate::way::way;

/// Prefix of the keys of queues, as errors show it. No key of a document begins so.
const QUEUE: &str = "queue of jobs";
/// Field of a line in a document: the time, in milliseconds, before which no queue claims the
/// document.
pub(crate) const NOT_BEFORE: &str = "not_before";
/// Why locks on documents have no sequences and counts.
pub(crate) const NO_VALUES: &str = "locks on documents cannot keep slots of `once`, which need records of their own: take named locks for them";
pub(crate) const NO_NUMBERS: &str = "locks on documents cannot keep sequences and counts, which need records of their own: take named locks for them";
/// Why the documents that are locked cannot be listed.
pub(crate) const NO_LIST: &str = "locks on documents cannot list what is locked, which would read the whole collection: ask for one document, or take named locks";
/// Maximum cached pipelines of parts.
const WAYS_MAX: usize = 256;
/// Longest time between a write with which a ticket leaves and the call of its release.
const LEAVING_MAX: Duration = Duration::from_secs(600);

/// Lines in the program's documents.
pub(crate) struct Locations {
    /// The field that has them.
    pub(crate) field: String,
    whole: Arc<CompiledPipelines>,
    /// The steps for a line that was taken out of a part. All parts share them.
    steps: OnceLock<Arc<Steps>>,
    parts: Mutex<HashMap<String, Arc<CompiledPipelines>>>,
    /// The stage that fills a document which a lock inserts.
    filling: Option<Arc<RawDocumentBuf>>,
    /// The documents that tickets of queues have claimed, or may have.
    pub(crate) document_claims: DocumentClaims,
    /// The tickets that leave together with a write of their holder, and whether they have left.
    /// These need no other leave.
    leaving: Mutex<ExpiringMap<bool>>,
    /// Tickets whose claim is in flight, each until its sender is dropped.
    claims: Mutex<HashMap<TicketId, watch::Receiver<()>>>,
    /// The queues: a ticket that joins the line of such a key claims a document.
    queues: Mutex<HashMap<Key, Arc<Claiming>>>,
    /// Documents that cannot be locked, by their `_id`, and when queues try them again.
    pub(crate) passed_over: PassedOver,
    /// The documents that tickets read when they were served.
    pub(crate) read_results: ReadResults,
}

/// Which documents are claimed, and in which order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claiming {
    pub(crate) filter: Document,
    pub(crate) order: Option<Document>,
    pub(crate) put_off: Arc<PutOffLooks>,
}

impl Locations {
    /// Returns the places in documents: lines are in this field, and `filling` goes into those that
    /// a lock inserts.
    pub(crate) fn new(field: &str, filling: Option<&Document>) -> Self {
        let filling = filling.map(|document| Arc::new(raw(&fill(document, &scratch(field)))));
        Self {
            field: field.to_owned(),
            whole: Arc::new(CompiledPipelines::new(&FieldPrefix::field(field))),
            steps: OnceLock::new(),
            parts: Mutex::default(),
            filling,
            document_claims: DocumentClaims::default(),
            leaving: Mutex::default(),
            claims: Mutex::default(),
            queues: Mutex::default(),
            passed_over: PassedOver::default(),
            read_results: ReadResults::default(),
        }
    }

    /// Returns the place of a ticket.
    pub(crate) fn of(&self, ticket: &Ticket) -> Result<Arc<Location>> {
        if is_queue(&ticket.key) {
            return self.claimed_by(ticket.id).ok_or_else(|| Error::lost(Loss::Broken));
        }
        self.of_key(&ticket.key)
    }

    /// Returns the place of the line of a key.
    pub(crate) fn of_key(&self, key: &Key) -> Result<Arc<Location>> {
        let named = Named::of(key)?;
        let (record, filter) = (named.record(), named.filter());
        if named.path.is_whole() {
            let pipelines = self.whole.clone();
            let location = Location::document(key.to_string(), record, &filter, pipelines);
            return Ok(Arc::new(location.filled(self.filling.clone(), &scratch(&self.field))));
        }
        let pipelines = self.part(&named.path)?;
        Ok(Arc::new(Location::document(key.to_string(), record, &filter, pipelines)))
    }

    /// Forgets a ticket that has left.
    pub(crate) fn forget(&self, id: TicketId) {
        self.document_claims.forget(id);
        self.read_results.take(id);
    }

    /// Returns the place of any whole document that this filter finds, for a claim.
    pub(crate) fn any(&self, key: &Key, filter: &Document) -> Location {
        Location::document(key.to_string(), key.to_string(), filter, self.whole.clone())
    }

    /// Returns the document that the ticket has claimed.
    pub(crate) fn claimed_by(&self, id: TicketId) -> Option<Arc<Location>> {
        self.document_claims.claimed_by(id, SystemClock.now())
    }

    /// Notes that the claim of this ticket is in flight until the returned sender is dropped.
    pub(crate) fn begins_to_claim(&self, id: TicketId) -> watch::Sender<()> {
        let (under_way, ends) = watch::channel(());
        let mut claims = self.claims.lock();
        claims.retain(|_, ends| ends.has_changed().is_ok());
        claims.insert(id, ends);
        under_way
    }

    /// Waits until no claim of this ticket is in flight.
    pub(crate) async fn claim_has_ended(&self, id: TicketId) {
        let ends = self.claims.lock().remove(&id);
        if let Some(mut ends) = ends {
            let _ = ends.changed().await; // nothing is sent: it ends with the sender
        }
    }

    /// Notes that the ticket leaves together with a write that is sent now.
    pub(crate) fn begins_to_leave(&self, id: TicketId) {
        self.note_leaving(id, false);
    }

    /// Notes that the ticket has left with that write, unless [`take_left`](Self::take_left) was
    /// called before: nothing reads it afterwards.
    pub(crate) fn has_left(&self, id: TicketId) {
        if self.is_leaving(id) {
            self.note_leaving(id, true);
        }
    }

    fn note_leaving(&self, id: TicketId, has_left: bool) {
        let now = SystemClock.now();
        // If there is no room, the ticket leaves once more, and is absent.
        self.leaving.lock().note(id, has_left, now, now.plus(LEAVING_MAX));
    }

    /// Notes that the write was not made or not answered, so that the ticket has to leave by
    /// itself.
    pub(crate) fn stays(&self, id: TicketId) {
        let mut leaving = self.leaving.lock();
        if leaving.get(id, SystemClock.now()) == Some(&false) {
            leaving.forget(id);
        }
    }

    /// Returns whether the ticket leaves with a write, or has left.
    pub(crate) fn is_leaving(&self, id: TicketId) -> bool {
        self.leaving.lock().get(id, SystemClock.now()).is_some()
    }

    /// Takes whether the ticket has left with a write. It is called once, by the release.
    pub(crate) fn take_left(&self, id: TicketId) -> bool {
        self.leaving.lock().forget(id).is_some_and(|(has_left, _)| has_left)
    }

    /// Opens a queue: a ticket that joins the line of this key claims a document.
    pub(crate) fn open_queue(&self, key: &Key, claiming: Claiming) {
        self.queues().insert(key.clone(), Arc::new(claiming));
    }

    /// Closes a queue.
    pub(crate) fn close_queue(&self, key: &Key) {
        self.queues().remove(key);
    }

    /// Returns the queue of this key.
    pub(crate) fn queue(&self, key: &Key) -> Option<Arc<Claiming>> {
        self.queues().get(key).cloned()
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Key, Arc<Claiming>>> {
        self.queues.lock()
    }

    fn part(&self, path: &Path) -> Result<Arc<CompiledPipelines>> {
        let name = path.to_string();
        if let Some(pipelines) = self.parts().get(&name) {
            return Ok(pipelines.clone());
        }
        path.check(&self.field)?;
        let prefix = FieldPrefix::part(&self.field, way(&self.field, path));
        let steps = self.steps.get_or_init(|| Arc::new(Steps::new(&prefix)));
        let pipelines = Arc::new(CompiledPipelines::with_steps(&prefix, steps.clone()));
        let mut parts = self.parts();
        if parts.len() >= WAYS_MAX {
            parts.clear();
        }
        parts.insert(name, pipelines.clone());
        Ok(pipelines)
    }

    fn parts(&self) -> MutexGuard<'_, HashMap<String, Arc<CompiledPipelines>>> {
        self.parts.lock()
    }
}

/// Returns the key of the nth queue of this process. It names no document.
pub(crate) fn queue_key(nth: u64) -> Result<Key> {
    Key::new(format!("{QUEUE} {nth}"))
}

pub(crate) fn is_queue(key: &Key) -> bool {
    key.as_str().starts_with(QUEUE)
}

/// Returns the stage that fills a new document, which is the only kind with null in this field.
fn fill(document: &Document, fresh: &str) -> Document {
    let is_new = doc! { "$eq": [{ "$type": format!("${fresh}") }, "null"] };
    let is_kept = doc! { "$ne": ["$$this.k", { "$literal": fresh }] };
    let own = doc! { "$objectToArray": "$$ROOT" };
    let own =
        doc! { "$arrayToObject": { "$filter": { "input": own, "as": "this", "cond": is_kept } } };
    let filled = doc! { "$mergeObjects": [{ "$literal": document.clone() }, own] };
    doc! { "$replaceWith": { "$cond": [is_new, filled, "$$ROOT"] } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_is_answered_after_the_release_leaves_no_record() {
        let (locations, id) = (Locations::new("_tenure", None), TicketId::fresh());
        locations.begins_to_leave(id);
        assert!(locations.is_leaving(id));
        assert!(!locations.take_left(id), "the write has no answer yet");
        locations.has_left(id);
        assert!(locations.leaving.lock().is_empty());

        locations.begins_to_leave(id);
        locations.has_left(id);
        locations.stays(id);
        assert!(locations.take_left(id), "it has left with the write");
    }
}
