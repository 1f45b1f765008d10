//! An engine that takes its time: it pauses around its verbs, or after them.

use std::future::poll_fn;
use std::task::Poll;

use tenure_core::layers::{AnyEngine, Layer, Operation};
use tenure_core::{BoxFuture, Engine as _, Result};

/// Lets others go first, once.
pub async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// An engine with pauses.
pub(crate) struct Paced<P> {
    engine: AnyEngine,
    pause: P,
    before: bool,
}

impl<P: Fn() -> BoxFuture<()> + Send + Sync + 'static> Paced<P> {
    /// It pauses before a verb is carried out, and before the answer is told.
    pub(crate) fn around(engine: AnyEngine, pause: P) -> Self {
        Self { engine, pause, before: true }
    }

    /// It pauses before the answer is told.
    pub(crate) fn after(engine: AnyEngine, pause: P) -> Self {
        Self { engine, pause, before: false }
    }

    async fn slowly<T>(&self, verb: impl Future<Output = T>) -> T {
        if self.before {
            (self.pause)().await;
        }
        let answer = verb.await;
        (self.pause)().await;
        answer
    }
}

impl<P: Fn() -> BoxFuture<()> + Send + Sync + 'static> Layer for Paced<P> {
    type Inner = AnyEngine;

    fn inner(&self) -> &AnyEngine {
        &self.engine
    }

    async fn intercept<T: Send>(
        &self,
        _: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.slowly(ask).await
    }

    async fn close(&self) {
        self.slowly(self.engine.close()).await;
    }
}
