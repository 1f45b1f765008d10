//! A change of documents as data, so that a transaction can be repeated from its beginning.

use mongodb::bson::{Bson, Document, serialize_to_document};
use mongodb::options::UpdateModifications;
use mongodb::{ClientSession, Collection};
use serde::Serialize;
use tenure_core::{Error, Result};

/// A change in one collection, for [`Fence::write`](crate::Fence::write).
#[derive(Clone, Debug)]
pub struct Write {
    collection: Collection<Document>,
    operation: WriteOperation,
    or_insert: bool,
}

#[derive(Clone, Debug)]
enum WriteOperation {
    Insert(Document),
    UpdateOne(Document, UpdateModifications),
    UpdateMany(Document, UpdateModifications),
    Replace(Document, Document),
    DeleteOne(Document),
    DeleteMany(Document),
}

/// The result of all writes of one transaction together.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WriteResult {
    /// The `_id` of each inserted document, in the order of the writes.
    pub inserted: Vec<Bson>,
    /// Number of documents that matched the filters of updates and replacements.
    pub matched: u64,
    /// Number of matched documents that were changed.
    pub modified: u64,
    /// Number of deleted documents.
    pub deleted: u64,
}

impl Write {
    /// Inserts a document.
    ///
    /// # Errors
    ///
    /// The value cannot be serialized as a document.
    pub fn insert<T: Serialize + Send + Sync>(
        collection: &Collection<T>,
        document: &T,
    ) -> Result<Self> {
        Ok(Self::to(collection, WriteOperation::Insert(serialized(document)?)))
    }

    /// Updates the first document that matches, by operators or by a pipeline.
    pub fn update_one<T: Send + Sync>(
        collection: &Collection<T>,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> Self {
        Self::to(collection, WriteOperation::UpdateOne(filter, update.into()))
    }

    /// Updates every document that matches.
    pub fn update_many<T: Send + Sync>(
        collection: &Collection<T>,
        filter: Document,
        update: impl Into<UpdateModifications>,
    ) -> Self {
        Self::to(collection, WriteOperation::UpdateMany(filter, update.into()))
    }

    /// Replaces the first document that matches.
    ///
    /// # Errors
    ///
    /// The value cannot be serialized as a document.
    pub fn replace_one<T: Serialize + Send + Sync>(
        collection: &Collection<T>,
        filter: Document,
        replacement: &T,
    ) -> Result<Self> {
        Ok(Self::to(collection, WriteOperation::Replace(filter, serialized(replacement)?)))
    }

    /// Deletes the first document that matches.
    pub fn delete_one<T: Send + Sync>(collection: &Collection<T>, filter: Document) -> Self {
        Self::to(collection, WriteOperation::DeleteOne(filter))
    }

    /// Deletes every document that matches.
    pub fn delete_many<T: Send + Sync>(collection: &Collection<T>, filter: Document) -> Self {
        Self::to(collection, WriteOperation::DeleteMany(filter))
    }

    /// Inserts a document if the filter of an update or a replacement matches none.
    #[must_use]
    pub fn or_insert(self) -> Self {
        Self { or_insert: true, ..self }
    }

    fn to<T: Send + Sync>(collection: &Collection<T>, operation: WriteOperation) -> Self {
        Self { collection: collection.clone_with_type(), operation, or_insert: false }
    }

    /// Executes the write inside a transaction, and adds its result to `written`.
    pub(crate) async fn run(
        &self,
        session: &mut ClientSession,
        written: &mut WriteResult,
    ) -> mongodb::error::Result<()> {
        let to = &self.collection;
        let updated = match &self.operation {
            WriteOperation::Insert(document) => {
                let done = to.insert_one(document).session(session).await?;
                written.inserted.push(done.inserted_id);
                return Ok(());
            }
            WriteOperation::DeleteOne(filter) => {
                let done = to.delete_one(filter.clone()).session(session).await?;
                written.deleted += done.deleted_count;
                return Ok(());
            }
            WriteOperation::DeleteMany(filter) => {
                let done = to.delete_many(filter.clone()).session(session).await?;
                written.deleted += done.deleted_count;
                return Ok(());
            }
            WriteOperation::UpdateOne(filter, update) => {
                let call = to.update_one(filter.clone(), update.clone());
                call.upsert(self.or_insert).session(session).await?
            }
            WriteOperation::UpdateMany(filter, update) => {
                let call = to.update_many(filter.clone(), update.clone());
                call.upsert(self.or_insert).session(session).await?
            }
            WriteOperation::Replace(filter, document) => {
                let call = to.replace_one(filter.clone(), document);
                call.upsert(self.or_insert).session(session).await?
            }
        };
        written.inserted.extend(updated.upserted_id);
        written.matched += updated.matched_count;
        written.modified += updated.modified_count;
        Ok(())
    }
}

fn serialized<T: Serialize>(value: &T) -> Result<Document> {
    serialize_to_document(value).map_err(|error| {
        Error::invalid(format!(
            "the value of the guarded write is not a document, and nothing was changed: {error}"
        ))
        .caused_by(error)
    })
}
