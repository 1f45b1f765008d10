//! Opening a collection, so that its documents can be locked.

use mongodb::Collection;
use tenure_core::Result;
use tenure_mongodb::Settings;
use tokio::runtime::Handle;

use crate::collection_locks::CollectionLocks;
use crate::lock::DocumentLocks;
use crate::settings::Documents;
use crate::store::DocumentStore;

impl Documents {
    /// Returns the locks on the documents of this collection, over its own client.
    ///
    /// The calling runtime drives the client's connections. It must be the one that the client was
    /// made in. While that is blocked, or while the program's own commands use every connection, no
    /// lock is renewed, and the guarantees contain a warning. While tickets or queues wait, one
    /// change stream for each collection uses a connection. [`connect`](Self::connect) has no such
    /// limits.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), without those of a URL.
    pub async fn over<T: Send + Sync>(
        self,
        collection: &Collection<T>,
    ) -> Result<DocumentLocks<T>> {
        let namespace = collection.namespace();
        let settings = Settings::new().database(namespace.db)?.collection(namespace.coll)?;
        let settings = self.spoken(settings);
        let (client, runtime, documents) =
            (collection.client().clone(), Handle::current(), self.clone());
        let opening =
            async move { DocumentStore::over(client, runtime, &settings, &documents).await };
        Ok(DocumentLocks::new(Box::pin(CollectionLocks::open(self, opening)).await?))
    }

    /// Returns the locks on the documents of a collection, with connections of their own. The URL
    /// names the database, and the collection as `collection=…`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the URL names no collection, or has an
    /// option that neither Tenure nor the driver knows.
    /// [`Rejected`](tenure_core::ErrorKind::Rejected) if the servers refuse the user, or the
    /// collection cannot keep locks. [`Unavailable`](tenure_core::ErrorKind::Unavailable) if no
    /// primary answers in time.
    pub async fn connect<T: Send + Sync>(self, url: impl AsRef<str>) -> Result<DocumentLocks<T>> {
        let (url, documents) = (url.as_ref().to_owned(), self.clone());
        let opening = async move { DocumentStore::connect(&url, &documents).await };
        Ok(DocumentLocks::new(Box::pin(CollectionLocks::open(self, opening)).await?))
    }
}
