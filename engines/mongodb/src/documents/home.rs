//! A home: where the documents are, and where what is asked of them is carried out, whatever the caller's threads do.

use std::sync::Arc;

use tenure_core::{Error, Host, Result};
use tokio::sync::oneshot;

use crate::store::MongoStore;

/// A collection, and the host that drives it.
#[derive(Clone)]
pub(super) struct Home {
    pub(super) store: Arc<MongoStore>,
    pub(super) host: Arc<dyn Host>,
}

impl Home {
    /// Carries something out on the host. It goes on if its caller goes.
    pub(super) async fn ask<T, F>(&self, asks: impl FnOnce(Arc<MongoStore>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (told, answered) = oneshot::channel();
        let asked = asks(self.store.clone());
        self.host.spawn(Box::pin(async move {
            let _nobody_listens = told.send(asked.await);
        }));
        answered.await.unwrap_or_else(|_| {
            Err(Error::unavailable(
                "the thread that speaks to the store ended before it had an answer",
            ))
        })
    }
}
