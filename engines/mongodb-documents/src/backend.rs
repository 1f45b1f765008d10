//! A backend: the place of the documents, in MongoDB or in memory. Its runtime runs their requests,
//! even if the caller's threads are blocked.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Document;
use tenure_core::{Error, Key, Result, Runtime, TicketId};
use tenure_mongodb::extension::Reads;
use tokio::sync::oneshot;

use crate::arrivals::Arrivals;
use crate::filter::FilterFields;
use crate::locations::Claiming;
use crate::memory::MemoryDocuments;
use crate::name::Named;
use crate::request::{Act, Done, Holding};
use crate::store::DocumentStore;

/// A collection.
#[derive(Clone)]
pub(crate) enum Backend {
    Mongo { store: Arc<DocumentStore>, host: Arc<dyn Runtime> },
    Memory { memory: MemoryDocuments, host: Arc<dyn Runtime> },
}

impl Backend {
    /// Returns the document that a ticket read when it was served.
    pub(crate) fn was_read(&self, id: TicketId) -> Option<Document> {
        match self {
            Self::Mongo { store, .. } => store.locations.read_results.take(id),
            // A holder reads it again at once.
            Self::Memory { .. } => None,
        }
    }

    /// Reads the document for a holder. Returns `None` if it holds no more.
    pub(crate) async fn read(&self, holding: Holding, reads: Reads) -> Result<Option<Document>> {
        match self {
            Self::Mongo { store, host } => ask(host, store.clone().read(holding, reads)).await,
            Self::Memory { memory, .. } => Ok(memory.read(&holding, &reads)),
        }
    }

    /// Runs an act of a holder. `count` is the number of the write, from 1.
    pub(crate) async fn act(&self, holding: Holding, count: i64, act: Act) -> Result<Done> {
        match self {
            Self::Mongo { store, host } => ask(host, store.clone().act(holding, count, act)).await,
            Self::Memory { memory, .. } => memory.act(&holding, act),
        }
    }

    /// Opens a queue: a ticket that joins the line of this key claims a document.
    pub(crate) fn open_queue(&self, key: &Key, claiming: Claiming) {
        match self {
            Self::Mongo { store, .. } => store.locations.open_queue(key, claiming),
            Self::Memory { memory, .. } => memory.open_queue(key, claiming),
        }
    }

    /// Closes a queue.
    pub(crate) fn close_queue(&self, key: &Key) {
        match self {
            Self::Mongo { store, .. } => store.locations.close_queue(key),
            Self::Memory { memory, .. } => memory.close_queue(key),
        }
    }

    /// Returns the document that a ticket has claimed.
    pub(crate) fn claimed_by(&self, id: TicketId) -> Result<Option<Named>> {
        match self {
            Self::Mongo { store, .. } => {
                let location = store.locations.claimed_by(id);
                location.map(|location| Named::of(&Key::new(location.line())?)).transpose()
            }
            Self::Memory { memory, .. } => Ok(memory.claimed_by(id)),
        }
    }

    /// Returns the time until a matching document may be free by itself. Returns `None` if there is
    /// none within this time.
    pub(crate) async fn next_due(
        &self,
        filter: Document,
        within: Duration,
    ) -> Result<Option<Duration>> {
        match self {
            Self::Mongo { store, host } => {
                let store = store.clone();
                ask(host, async move { store.next_due(filter, within).await }).await
            }
            // A worker of this process that ends releases its document, and nothing is put off.
            Self::Memory { memory, .. } => Ok(memory.has_free(&filter)?.then_some(Duration::ZERO)),
        }
    }

    /// Returns the notifications of documents that may have come in.
    pub(crate) fn arrivals(&self, filter: &Document) -> Arrivals {
        match self {
            Self::Mongo { store, .. } => Arrivals::new(store, FilterFields::of(filter)),
            Self::Memory { memory, .. } => Arrivals::of(memory.changes()),
        }
    }

    pub(crate) fn host(&self) -> &dyn Runtime {
        let (Self::Mongo { host, .. } | Self::Memory { host, .. }) = self;
        &**host
    }
}

/// Runs a future on the host. It goes on if the caller is dropped.
async fn ask<T: Send + 'static>(
    host: &Arc<dyn Runtime>,
    asked: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let (told, answered) = oneshot::channel();
    host.spawn(Box::pin(async move {
        let _ = told.send(asked.await); // the caller may be gone
    }));
    answered.await.unwrap_or_else(|_| {
        Err(Error::unavailable("the thread that speaks to the store ended before it had an answer"))
    })
}
