//! The engine under the locks on documents in memory: the memory engine, with a line for each
//! document.

use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Document;
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::layers::Layer;
use tenure_core::{
    CounterValue, Engine as _, Error, EventDelivery, Guarantees, Key, LeaveMode, LeaveOutcome,
    Memory, Place, Result, Runtime, Sampler, Ticket, TicketState, WaitMode, Wake, Window,
};

use super::{
    InMemoryState, MemoryDocuments, at_once, line_of, matches, named, no_document, refused,
};
use crate::locations::{NO_LIST, NO_NUMBERS, NO_VALUES};
use crate::name::Named;

/// Poll interval of onlookers.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// The engine under the locks: the memory engine, with a line for each document.
pub(crate) struct MemoryView {
    collection: MemoryDocuments,
    filling: Option<Document>,
    sampler: Sampler,
    host: Arc<dyn Runtime>,
}

impl MemoryView {
    pub(super) fn new(
        collection: &MemoryDocuments,
        filling: Option<Document>,
        host: Arc<dyn Runtime>,
    ) -> Self {
        Self { collection: collection.clone(), filling, sampler: Sampler::new(LOOK_PAUSE), host }
    }

    /// Returns the ticket in the line of its document.
    fn inside(&self, ticket: &Ticket) -> Result<Ticket> {
        let claimed = self.collection.claimed_by(ticket.id);
        let named = claimed.map_or_else(|| Named::of(&ticket.key), Ok)?;
        Ok(Ticket { key: line_of(&named)?, ..ticket.clone() })
    }

    /// Claims the first document that matches and is not held.
    fn claim(&self, state: &mut InMemoryState, ticket: &Ticket) -> Result<Option<Place>> {
        let claiming = &state.queues[&ticket.key];
        if claiming.order.is_some() {
            return Err(refused("`order`"));
        }
        for document in state.documents.values() {
            if !matches(document, &claiming.filter)? {
                continue;
            }
            let named = named(document);
            let inside = Ticket { key: line_of(&named)?, ..ticket.clone() };
            if let Some(place) = at_once(self.inner().join(&inside, WaitMode::NoWait))? {
                state.claimed.insert(ticket.id, named);
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

impl Layer for MemoryView {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.collection.0.lines
    }

    fn profile(&self) -> Guarantees {
        let mut profile = self.inner().guarantees();
        profile.events = EventDelivery::Sampled;
        profile
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        let mut state = self.collection.state();
        if state.queues.contains_key(&ticket.key) {
            return self.claim(&mut state, ticket);
        }
        let named = Named::of(&ticket.key)?;
        let inside = Ticket { key: line_of(&named)?, ..ticket.clone() };
        if let Entry::Vacant(missing) = state.documents.entry(named.record()) {
            let filling = self.filling.as_ref().ok_or_else(|| no_document(&ticket.key))?;
            let mut document = filling.clone();
            document.insert("_id", named.id);
            missing.insert(document);
        }
        at_once(self.inner().join(&inside, patience))
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.inner().renew(&self.inside(ticket)?).await
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        // A ticket of a queue that claimed nothing stands nowhere.
        let Ok(inside) = self.inside(ticket) else { return Ok(LeaveOutcome::Absent) };
        let left = self.inner().leave(&inside, how).await?;
        if left != LeaveOutcome::Requested {
            self.collection.state().claimed.remove(&ticket.id);
        }
        self.collection.ring();
        Ok(left)
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        self.inner().watch(&self.inside(ticket)?, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.sampler.events(self, &*self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let line = self.inner().line(&line_of(&Named::of(key)?)?).await?;
        let named = |(ticket, place)| (Ticket { key: key.clone(), ..ticket }, place);
        Ok(line.into_iter().map(named).collect())
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

    async fn close(&self) {
        // A waiting worker looks again, and gets the error of closed locks.
        self.collection.ring();
    }
}
