//! A collection in memory, as its user sees it.

use std::sync::Arc;

use mongodb::bson::{Bson, Document};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::layers::AnyEngine;
use tenure_core::{BackgroundRuntime, Error, Result};

use super::lock::DocumentLocks;
use super::memory::{MemoryView, Warehouse};
use super::settings::Documents;
use super::shelf::Shelf;
use super::typed::{read, written};

/// A collection in this process's memory. Clones share the documents.
///
/// It takes updates by `$set`, `$unset`, `$inc`, `$push` and `$pull`, and filters by values, `$eq`,
/// `$ne`, `$gt`, `$gte`, `$lt`, `$lte`, `$in`, `$exists`, `$and` and `$or`. Pipelines and all other
/// operators are refused with an error.
///
/// ```
/// use mongodb::bson::{Document, doc};
/// use tenure_mongodb::documents::{Documents, MemoryDocuments};
///
/// # tenure_core::blocking::block_on(async {
/// let collection = MemoryDocuments::new();
/// collection.insert(&doc! { "_id": 42, "state": "new" })?;
/// let orders = Documents::new().in_memory::<Document>(&collection);
/// let order = orders.document(42).lock().await?;
/// assert_eq!(order.document().get_str("state").unwrap(), "new");
/// order.release_with(doc! { "$set": { "state": "paid" } }).await?;
/// assert_eq!(collection.find::<Document>(42)?, Some(doc! { "_id": 42, "state": "paid" }));
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Default)]
pub struct MemoryDocuments(Arc<Warehouse>);

impl MemoryDocuments {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts a document, as a program without locks does. Its `_id` must be new.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the document has no `_id`, and
    /// [`Rejected`](tenure_core::ErrorKind::Rejected) if there is one with this `_id`.
    pub fn insert<T: Serialize>(&self, document: &T) -> Result<()> {
        let document = written(document)?;
        let id = document.get("_id").cloned();
        let id = id.ok_or_else(|| Error::invalid("a document in memory has an _id of its own"))?;
        self.0.insert(&id, document)
    }

    /// Returns the document with this `_id`, without its locks.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the document cannot be read as `T`.
    pub fn find<T: DeserializeOwned>(&self, id: impl Into<Bson>) -> Result<Option<T>> {
        let id = id.into();
        self.0.find(&id).map(|(document, field)| read(document, &id, &field)).transpose()
    }

    /// Replaces the document with the same `_id`, as a program without locks does.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the value cannot be a document.
    pub fn replace<T: Serialize>(&self, document: &T) -> Result<()> {
        let document = written(document)?;
        let id = document.get("_id").cloned().unwrap_or(Bson::Null);
        self.delete(id.clone());
        self.0.insert(&id, document)
    }

    /// Updates a document by operators, as a program without locks does.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid), [`Rejected`](tenure_core::ErrorKind::Rejected)
    /// or [`Unsupported`](tenure_core::ErrorKind::Unsupported) if an operator is refused.
    pub fn update(&self, id: impl Into<Bson>, operators: &Document) -> Result<()> {
        self.0.update(&id.into(), operators)
    }

    /// Returns the engine under the locks on these documents. Its keys are those of
    /// [`DocumentLock::key`](super::DocumentLock::key).
    pub fn engine(&self, documents: &Documents) -> AnyEngine {
        let host = Arc::new(BackgroundRuntime::for_timers());
        AnyEngine::new(MemoryView::new(self.0.clone(), documents, host))
    }

    /// Deletes a document, as a program without locks does.
    pub fn delete(&self, id: impl Into<Bson>) {
        self.0.delete(&id.into());
    }
}

impl Documents {
    /// Returns the locks on the documents of a collection in memory, which are those of one
    /// process.
    pub fn in_memory<T>(self, collection: &MemoryDocuments) -> DocumentLocks<T> {
        DocumentLocks::new(Shelf::in_memory(self, collection.0.clone()))
    }
}
