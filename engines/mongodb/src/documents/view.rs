//! A view: the engine under the locks of documents. A caller that joins through it reads what it
//! locks.

use std::sync::Arc;

use tenure_core::layers::Layer;
use tenure_core::{Engine, Error, LeaveMode, LeaveOutcome, Place, Result, Ticket, WaitMode};
use tokio::sync::oneshot;

use crate::spots::{Claiming, is_queue};
use crate::store::MongoStore;
use crate::wish::Reads;

/// The store of a collection, and the fields that a lock reads.
pub(super) struct View {
    pub(super) store: Arc<MongoStore>,
    pub(super) reads: Reads,
}

impl Layer for View {
    type Inner = MongoStore;

    fn inner(&self) -> &MongoStore {
        &self.store
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        match self.store.spots.in_documents()?.queue(&ticket.key) {
            Some(claiming) => self.claim(ticket, claiming).await,
            None => self.store.join_reading(ticket, patience, self.reads.clone()).await,
        }
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let renewed = Engine::renew(&*self.store, ticket).await?;
        if renewed.is_none() && self.store.spots.in_documents()?.is_leaving(ticket.id) {
            // The write reports the result to its owner.
            return Err(Error::unavailable("the ticket leaves with a write of its holder"));
        }
        Ok(renewed)
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let documents = self.store.spots.in_documents()?;
        if documents.take_left(ticket.id) {
            return Ok(LeaveOutcome::Holding);
        }
        documents.claim_has_ended(ticket.id).await;
        if is_queue(&ticket.key) && !self.store.has_claimed(ticket).await? {
            return Ok(LeaveOutcome::Absent);
        }
        Engine::leave(&*self.store, ticket, how).await
    }
}

impl View {
    /// Only the answer to a claim names the document, so the claim goes on if its caller goes.
    async fn claim(&self, ticket: &Ticket, claiming: Arc<Claiming>) -> Result<Option<Place>> {
        let (store, ticket, reads) = (self.store.clone(), ticket.clone(), self.reads.clone());
        let under_way = store.spots.in_documents()?.begins_to_claim(ticket.id);
        let (told, answered) = oneshot::channel();
        let home = store.calls.home.clone();
        home.spawn(async move {
            let claimed = store.claim(&ticket, &claiming, reads).await;
            drop(under_way);
            let _ = told.send(claimed); // the caller may be gone
        });
        let ended = |_| Err(Error::unavailable("the runtime ended before a claim was answered"));
        answered.await.unwrap_or_else(ended)
    }
}
