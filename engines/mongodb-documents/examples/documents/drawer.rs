//! A drawer: the documents of a story, in a collection of a MongoDB or in this process's memory.

use std::error::Error;

use mongodb::bson::{Bson, Document, doc};
use mongodb::{Client, Collection};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_mongodb_documents::{DocumentLocks, Documents, MemoryDocuments};

/// Clones share the documents.
#[derive(Clone)]
pub(crate) enum Drawer {
    Mongo(Collection<Document>),
    Memory(MemoryDocuments),
}

impl Drawer {
    /// Opens a collection of the MongoDB at this URL, or an empty one in memory if the URL is
    /// `memory:`.
    pub(crate) async fn at(url: &str, collection: &str) -> Result<Self, Box<dyn Error>> {
        if url == "memory:" {
            return Ok(Self::Memory(MemoryDocuments::new()));
        }
        let client = Client::with_uri_str(url).await?;
        Ok(Self::Mongo(client.database("shop").collection(collection)))
    }

    /// Opens the locks on its documents, with a client of their own.
    pub(crate) async fn open<T: Send + Sync>(
        &self,
        documents: Documents,
    ) -> tenure_core::Result<DocumentLocks<T>> {
        match self {
            Self::Mongo(collection) => documents.over(&collection.clone_with_type::<T>()).await,
            Self::Memory(memory) => Ok(documents.in_memory(memory)),
        }
    }

    pub(crate) async fn insert<T: Serialize>(&self, document: &T) -> Result<(), Box<dyn Error>> {
        match self {
            Self::Mongo(collection) => {
                let document = mongodb::bson::serialize_to_document(document)?;
                collection.insert_one(document).await?;
            }
            Self::Memory(memory) => memory.insert(document)?,
        }
        Ok(())
    }

    /// Returns the document with this `_id` as a program without locks reads it.
    pub(crate) async fn find<T: DeserializeOwned>(
        &self,
        id: impl Into<Bson>,
    ) -> Result<T, Box<dyn Error>> {
        let id: Bson = id.into();
        let found = match self {
            Self::Mongo(collection) => collection.find_one(doc! { "_id": id }).await?,
            Self::Memory(memory) => memory.find::<Document>(id)?,
        };
        Ok(mongodb::bson::deserialize_from_document(found.ok_or("it is gone")?)?)
    }
}
