//! Errands: what others may wait for as well is carried out on the host, which always goes on. Whoever asks for it may stand
//! still in the middle, with its runtime or alone, and must not keep the others out for as long.

use std::pin::pin;

use futures_util::future::{Either, select};
use tenure_core::Result;
use tokio::sync::oneshot;

use crate::contract::Store;
use crate::parts::Parts;

impl<S: Store> Parts<S> {
    /// Carries this out on the host, for as long as somebody waits for it.
    pub(crate) async fn errand<T: Send + 'static>(
        &self,
        errand: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (mut answer, answered) = oneshot::channel();
        self.host.spawn(Box::pin(async move {
            let outcome = match select(pin!(answer.closed()), pin!(errand)).await {
                Either::Left(_) => return,
                Either::Right((outcome, _)) => outcome,
            };
            // Whoever asked may have gone.
            let _gone = answer.send(outcome);
        }));
        answered.await.unwrap_or_else(|_| Err(self.store.silence()))
    }
}
