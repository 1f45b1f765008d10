//! A view: the engine under the locks of documents. A caller that joins through it reads what it
//! locks.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::layers::Layer;
use tenure_core::{
    CounterValue, Error, EventDelivery, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result,
    Sampler, ThisRuntime, Ticket, TicketState, WaitMode, Wake, Window,
};
use tenure_mongodb::MongoStore;
use tenure_mongodb::extension::{JoinOutcome, Reads};
use tokio::sync::oneshot;

use crate::locations::{Claiming, NO_LIST, NO_NUMBERS, NO_VALUES, is_queue};
use crate::store::{DocumentStore, no_document};

/// Poll interval of onlookers.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// The store of a collection, and the fields that a lock reads.
pub(crate) struct DocumentView {
    pub(crate) store: Arc<DocumentStore>,
    reads: Reads,
    sampler: Sampler,
    host: ThisRuntime,
}

impl Layer for DocumentView {
    type Inner = MongoStore;

    fn inner(&self) -> &MongoStore {
        &self.store.engine
    }

    fn profile(&self) -> Guarantees {
        let mut profile = tenure_core::Engine::guarantees(self.inner());
        profile.events = EventDelivery::Sampled;
        profile
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        let locations = &self.store.locations;
        if let Some(claiming) = locations.queue(&ticket.key) {
            return self.claim(ticket, claiming).await;
        }
        let location = locations.of(ticket)?;
        let joined = self.inner().join_at(&location, ticket, patience, self.reads.clone());
        match joined.await? {
            JoinOutcome::In(place, document) => {
                if let Some(document) = document {
                    locations.read_results.put(ticket.id, document);
                }
                Ok(Some(place))
            }
            JoinOutcome::Busy => Ok(None),
            JoinOutcome::Nowhere => Err(no_document(&self.store.commands.collection, &ticket.key)),
        }
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let renewed = self.store.renew(ticket).await?;
        if renewed.is_none() && self.store.locations.is_leaving(ticket.id) {
            // The write reports the result to its owner.
            return Err(Error::unavailable("the ticket leaves with a write of its holder"));
        }
        Ok(renewed)
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let locations = &self.store.locations;
        if locations.take_left(ticket.id) {
            return Ok(LeaveOutcome::Holding);
        }
        locations.claim_has_ended(ticket.id).await;
        if is_queue(&ticket.key) && !self.store.has_claimed(ticket).await? {
            return Ok(LeaveOutcome::Absent);
        }
        let left = self.inner().leave_at(&locations.of(ticket)?, ticket, how).await?;
        if left != LeaveOutcome::Requested {
            locations.forget(ticket.id);
        }
        Ok(left)
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        // A ticket of a queue has no place once it has left.
        let Ok(location) = self.store.locations.of(ticket) else { return Ok(Wake::Look) };
        self.inner().watch_at(&location, ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.sampler.events(self, &self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.inner().line_at(&*self.store.locations.of_key(key)?, key).await
    }

    async fn keys(&self, _prefix: &str) -> Result<Vec<Key>> {
        Err(Error::unsupported(NO_LIST))
    }

    async fn add(&self, _key: &Key, _by: u64, _window: Option<Window>) -> Result<CounterValue> {
        Err(Error::unsupported(NO_NUMBERS))
    }

    async fn swap(&self, _key: &Key, _seen: &str, _value: &str) -> Result<String> {
        Err(Error::unsupported(NO_VALUES))
    }
}

impl DocumentView {
    pub(crate) fn new(store: DocumentStore, reads: Reads) -> Self {
        let (sampler, host) = (Sampler::new(LOOK_PAUSE), ThisRuntime::new());
        Self { store: Arc::new(store), reads, sampler, host }
    }

    /// Only the answer to a claim names the document, so the claim goes on if its caller goes.
    async fn claim(&self, ticket: &Ticket, claiming: Arc<Claiming>) -> Result<Option<Place>> {
        let (store, ticket, reads) = (self.store.clone(), ticket.clone(), self.reads.clone());
        let under_way = store.locations.begins_to_claim(ticket.id);
        let (told, answered) = oneshot::channel();
        let runtime = store.commands.runtime.clone();
        runtime.spawn(async move {
            let claimed = store.claim(&ticket, &claiming, reads).await;
            drop(under_way);
            let _ = told.send(claimed); // the caller may be gone
        });
        let ended = |_| Err(Error::unavailable("the runtime ended before a claim was answered"));
        answered.await.unwrap_or_else(ended)
    }
}
