//! The locks of a collection, and the documents themselves.

use std::sync::Arc;

use tenure_core::layers::OnRuntime;
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime};
use tenure_mongodb::extension::RETRIES;

use crate::backend::Backend;
use crate::memory::MemoryDocuments;
use crate::settings::Documents;
use crate::store::DocumentStore;
use crate::view::DocumentView;

/// State that all locks on documents of one collection share.
pub(crate) struct CollectionLocks {
    pub(crate) locks: Locks,
    pub(crate) backend: Backend,
    pub(crate) settings: Documents,
}

impl CollectionLocks {
    /// Opens a collection in this process's memory.
    pub(crate) fn in_memory(documents: Documents, memory: &MemoryDocuments) -> Arc<Self> {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
        let view = memory.view(&documents, host.clone());
        let backend = Backend::Memory { memory: memory.clone(), host: host.clone() };
        let locks = Locks::on(view, host);
        Arc::new(Self { locks, backend, settings: documents })
    }

    /// Opens a collection. Its store is opened on the runtime that is to drive it.
    pub(crate) async fn open(
        documents: Documents,
        store: impl Future<Output = Result<DocumentStore>> + Send + 'static,
    ) -> Result<Arc<Self>> {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
        let reads = documents.reads.clone();
        let view =
            OnRuntime::make(
                host.clone(),
                async move { Ok(DocumentView::new(store.await?, reads)) },
            )
            .await?;
        let backend = Backend::Mongo { store: view.inner().store.clone(), host: host.clone() };
        let locks = Locks::with_retries(view, host, RETRIES);
        Ok(Arc::new(Self { locks, backend, settings: documents }))
    }
}
