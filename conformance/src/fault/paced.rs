//! An engine that pauses around its methods, or after them.

use std::future::poll_fn;
use std::task::Poll;

use tenure_core::layers::{AnyEngine, Layer, Operation};
use tenure_core::{BoxFuture, Engine as _, Result};

/// Yields once to the other tasks.
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
    /// Wraps an engine that pauses before a method runs, and before it returns.
    pub(crate) fn around(engine: AnyEngine, pause: P) -> Self {
        Self { engine, pause, before: true }
    }

    /// Wraps an engine that pauses before a method returns.
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
