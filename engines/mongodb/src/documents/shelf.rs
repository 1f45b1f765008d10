//! A shelf: the locks of a collection, and the documents themselves.

use std::sync::Arc;
use std::time::Duration;

use mongodb::Client;
use tenure_core::layers::{OnRuntime, Retry};
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime};
use tokio::runtime::Handle;

use super::home::Home;
use super::memory::{MemoryView, Warehouse};
use super::settings::Documents;
use super::view::View;
use crate::connect;
use crate::name::Name;
use crate::settings::Settings;
use crate::spots::Spots;
use crate::store::MongoStore;
use crate::url;
use crate::{RETRIES, RETRY_PAUSE};

/// State that all locks on documents of one collection share.
pub(super) struct Shelf {
    pub(super) locks: Locks,
    pub(super) home: Home,
    pub(super) settings: Documents,
}

impl Shelf {
    /// Opens the collection with a client that is made on the runtime it is to live on.
    pub(super) async fn connect(
        documents: Documents,
        settings: Settings,
        client: impl FnOnce(Duration) -> Result<(Client, Name)> + Send + 'static,
    ) -> Result<Arc<Self>> {
        let spots = documents.spots();
        Self::open(documents, async move {
            let (client, name) = client(settings.timeout)?;
            let home = Handle::current();
            MongoStore::of(client, name, home, &settings, true, spots).await
        })
        .await
    }

    /// Opens the collection over a client of the program's own.
    pub(super) async fn over(
        documents: Documents,
        client: Client,
        name: Name,
        home: Option<Handle>,
        settings: Settings,
    ) -> Result<Arc<Self>> {
        let spots = documents.spots();
        Self::open(documents, async move {
            let home = home.unwrap_or_else(Handle::current);
            MongoStore::of(client, name, home, &settings, false, spots).await
        })
        .await
    }

    /// Opens a collection in this process's memory.
    pub(super) fn in_memory(documents: Documents, warehouse: Arc<Warehouse>) -> Arc<Self> {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
        let view = MemoryView::new(warehouse.clone(), &documents, host.clone());
        let home = Home::Memory { warehouse, host: host.clone() };
        let locks = Locks::on(view, host);
        Arc::new(Self { locks, home, settings: documents })
    }

    async fn open(
        documents: Documents,
        store: impl Future<Output = Result<MongoStore>> + Send + 'static,
    ) -> Result<Arc<Self>> {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
        let reads = documents.reads.clone();
        let view = OnRuntime::make(host.clone(), async move {
            Ok(View { store: Arc::new(store.await?), reads })
        })
        .await?;
        let home = Home::Mongo { store: view.inner().store.clone(), host: host.clone() };
        let locks = Locks::on(Retry::new(view, host.clone(), RETRIES, RETRY_PAUSE), host);
        Ok(Arc::new(Self { locks, home, settings: documents }))
    }
}

impl MongoStore {
    /// Opens the engine under the locks on documents. Its keys are those of
    /// [`DocumentLock::key`](super::DocumentLock::key). The URL names the collection.
    ///
    /// # Errors
    ///
    /// As [`Documents::connect`](super::Documents::connect).
    pub async fn of_documents(url: &str, documents: &Documents) -> Result<Self> {
        let (options, settings) = url::read(url).await?;
        let settings = documents.settings_of_url(settings)?;
        let (client, name) = connect::client(options, settings.timeout)?;
        let (spots, home) = (documents.spots(), Handle::current());
        Self::of(client, name, home, &settings, true, spots).await
    }
}

impl Documents {
    fn spots(&self) -> Spots {
        Spots::documents(&self.field, self.filling.as_ref())
    }
}
