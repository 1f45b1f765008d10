//! A home: the place of the documents, in MongoDB or in memory. Its runtime runs their requests,
//! even if the caller's threads are blocked.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Document;
use tenure_core::{Error, Key, Result, Runtime, TicketId};
use tokio::sync::oneshot;

use super::arrivals::Arrivals;
use super::filter::FilterFields;
use super::memory::Warehouse;
use super::name::Named;
use super::request::{Act, Done, Holding};
use crate::spots::Claiming;
use crate::store::MongoStore;
use crate::wish::Reads;

/// A collection.
#[derive(Clone)]
pub(super) enum Home {
    Mongo { store: Arc<MongoStore>, host: Arc<dyn Runtime> },
    Memory { warehouse: Arc<Warehouse>, host: Arc<dyn Runtime> },
}

impl Home {
    /// Returns the document that a ticket read when it was served.
    pub(super) fn was_read(&self, id: TicketId) -> Option<Document> {
        match self {
            Self::Mongo { store, .. } => store.tray.take(id),
            Self::Memory { warehouse, .. } => warehouse.was_read(id),
        }
    }

    /// Reads the document for a holder. Returns `None` if it holds no more.
    pub(super) async fn read(&self, holding: Holding, reads: Reads) -> Result<Option<Document>> {
        match self {
            Self::Mongo { store, host } => ask(host, store.clone().read(holding, reads)).await,
            Self::Memory { warehouse, .. } => Ok(warehouse.read(&holding, &reads)),
        }
    }

    /// Runs an act of a holder. `count` is the number of the write, from 1.
    pub(super) async fn act(&self, holding: Holding, count: i64, act: Act) -> Result<Done> {
        match self {
            Self::Mongo { store, host } => ask(host, store.clone().act(holding, count, act)).await,
            Self::Memory { warehouse, .. } => warehouse.act(&holding, act),
        }
    }

    /// Opens a queue: a ticket that joins the line of this key claims a document.
    pub(super) fn open_queue(&self, key: &Key, claiming: Claiming) {
        match self {
            Self::Mongo { store, .. } => {
                if let Ok(documents) = store.spots.in_documents() {
                    documents.open_queue(key, claiming);
                }
            }
            Self::Memory { warehouse, .. } => warehouse.open_queue(key, claiming),
        }
    }

    /// Closes a queue.
    pub(super) fn close_queue(&self, key: &Key) {
        match self {
            Self::Mongo { store, .. } => {
                if let Ok(documents) = store.spots.in_documents() {
                    documents.close_queue(key);
                }
            }
            Self::Memory { warehouse, .. } => warehouse.close_queue(key),
        }
    }

    /// Returns the document that a ticket has claimed.
    pub(super) fn claimed_by(&self, id: TicketId) -> Result<Option<Named>> {
        match self {
            Self::Mongo { store, .. } => {
                let spot = store.spots.in_documents()?.claimed_by(id);
                spot.map(|spot| Named::of(&Key::new(spot.line())?)).transpose()
            }
            Self::Memory { warehouse, .. } => Ok(warehouse.claimed_by(id)),
        }
    }

    /// Returns the time until a matching document may be free by itself. Returns `None` if there is
    /// none within this time.
    pub(super) async fn next_due(
        &self,
        filter: Document,
        within: Duration,
    ) -> Result<Option<Duration>> {
        match self {
            Self::Mongo { store, host } => {
                let store = store.clone();
                ask(host, async move { store.next_due(filter, within).await }).await
            }
            Self::Memory { warehouse, .. } => {
                Ok(warehouse.next_due(&filter).filter(|due| *due <= within))
            }
        }
    }

    /// Returns the notifications of documents that may have come in.
    pub(super) fn arrivals(&self, filter: &Document) -> Result<Arrivals> {
        match self {
            Self::Mongo { store, .. } => Arrivals::new(store, FilterFields::of(filter)),
            Self::Memory { warehouse, .. } => Ok(Arrivals::of(warehouse.arrivals())),
        }
    }

    pub(super) fn host(&self) -> &dyn Runtime {
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
