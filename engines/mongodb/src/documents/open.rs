//! Opening a collection, so that its documents can be locked.

use mongodb::{Client, Collection};
use tenure_core::Result;
use tokio::runtime::Handle;

use super::lock::DocumentLocks;
use super::settings::Documents;
use super::shelf::Shelf;
use crate::connect;
use crate::name::Name;
use crate::settings::Settings;
use crate::url;

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
        let (client, name) = (collection.client().clone(), Name::unknown());
        self.open(client, name, Some(Handle::current()), settings).await
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
        let (options, settings) = url::read(url.as_ref()).await?;
        let settings = self.settings_of_url(settings)?;
        let opened =
            Shelf::connect(self, settings, move |timeout| connect::client(options, timeout));
        Ok(DocumentLocks::new(Box::pin(opened).await?))
    }

    async fn open<T: Send + Sync>(
        self,
        client: Client,
        name: Name,
        home: Option<Handle>,
        settings: Settings,
    ) -> Result<DocumentLocks<T>> {
        let settings = self.spoken(settings);
        let opened = Shelf::over(self, client, name, home, settings);
        Ok(DocumentLocks::new(Box::pin(opened).await?))
    }
}
