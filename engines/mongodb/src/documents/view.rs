//! A view: the engine under the locks of documents. Whoever joins through it reads what it locks.

use std::sync::Arc;

use tenure_core::wrap::Around;
use tenure_core::{Engine, Error, Leave, Left, Patience, Place, Result, Ticket};

use crate::store::MongoStore;
use crate::wish::Reads;

/// The store of a collection, and what a lock reads.
pub(super) struct View {
    pub(super) store: Arc<MongoStore>,
    pub(super) reads: Reads,
}

impl Around for View {
    type Inner = MongoStore;

    fn inner(&self) -> &MongoStore {
        &self.store
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        match self.store.spots.in_documents()?.queue(&ticket.key) {
            Some(claiming) => self.store.claim(ticket, &claiming, self.reads.clone()).await,
            None => self.store.join_reading(ticket, patience, self.reads.clone()).await,
        }
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let renewed = Engine::renew(&*self.store, ticket).await?;
        if renewed.is_none() && self.store.spots.in_documents()?.is_leaving(ticket.id) {
            // Its owner will hear of it from the write.
            return Err(Error::unavailable("the ticket leaves with a write of its holder"));
        }
        Ok(renewed)
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        if self.store.spots.in_documents()?.take_left(ticket.id) {
            return Ok(Left::Holding);
        }
        Engine::leave(&*self.store, ticket, how).await
    }
}
