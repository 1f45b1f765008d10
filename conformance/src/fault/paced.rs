//! An engine that takes its time: it pauses around its verbs, or after them.

use std::future::poll_fn;
use std::task::Poll;

use tenure_core::event::{Cursor, News, Scope};
use tenure_core::wrap::AnyEngine;
use tenure_core::{
    Boxed, Engine, Key, Leave, Left, Patience, Place, Profile, Result, Standing, Tally, Ticket,
    Wake, Window,
};

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

impl<P: Fn() -> Boxed<()> + Send + Sync + 'static> Paced<P> {
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

impl<P: Fn() -> Boxed<()> + Send + Sync + 'static> Engine for Paced<P> {
    fn profile(&self) -> Profile {
        self.engine.profile()
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        self.slowly(self.engine.join(ticket, patience)).await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.slowly(self.engine.renew(ticket)).await
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        self.slowly(self.engine.leave(ticket, how)).await
    }

    async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        self.slowly(self.engine.watch(ticket, seen)).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        self.slowly(self.engine.events(scope, after)).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.slowly(self.engine.line(key)).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.slowly(self.engine.keys(prefix)).await
    }

    async fn tally(&self, key: &Key, by: u64, window: Option<Window>) -> Result<Tally> {
        self.slowly(self.engine.tally(key, by, window)).await
    }

    async fn close(&self) {
        self.slowly(self.engine.close()).await;
    }
}
