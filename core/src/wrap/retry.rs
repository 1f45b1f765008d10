//! An engine that asks again where the answer was lost: twice is once.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::event::{Cursor, News, Scope};
use crate::{
    Engine, Host, Key, Leave, Left, Patience, Place, Profile, Result, Standing, Tally, Ticket,
    Wake, Window,
};

/// Sends a verb again when its outcome is unknown, a few times, with growing pauses.
///
/// A windowed count is never sent again: it would count twice.
pub struct Retry<E> {
    engine: E,
    host: Arc<dyn Host>,
    times: u32,
    pause: Duration,
}

impl<E: Engine> Retry<E> {
    /// Up to `times` more attempts, the first after `pause`, each next after twice as long.
    pub fn new(engine: E, host: Arc<dyn Host>, times: u32, pause: Duration) -> Self {
        Self { engine, host, times, pause }
    }

    async fn again<T, F: Future<Output = Result<T>>>(
        &self,
        mut attempt: impl FnMut(u32) -> F,
    ) -> Result<T> {
        let mut pause = self.pause;
        for before in 0.. {
            match attempt(before).await {
                Err(error) if error.is_unknown() && before < self.times => {
                    tracing::debug!(%error, "asking again");
                    self.host.sleep(pause).await;
                    pause = pause.saturating_mul(2);
                }
                outcome => return outcome,
            }
        }
        unreachable!("the last attempt always returns")
    }
}

impl<E: Engine> Engine for Retry<E> {
    fn profile(&self) -> Profile {
        self.engine.profile()
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        self.again(|_| self.engine.join(ticket, patience)).await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.again(|_| self.engine.renew(ticket)).await
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        self.again(|before| async move {
            match self.engine.leave(ticket, how).await {
                Ok(Left::Absent) if before > 0 => Ok(Left::Unsure),
                answer => answer,
            }
        })
        .await
    }

    async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        self.engine.watch(ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        self.again(|_| self.engine.events(scope, after)).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.again(|_| self.engine.line(key)).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.again(|_| self.engine.keys(prefix)).await
    }

    async fn tally(&self, key: &Key, by: u64, window: Option<Window>) -> Result<Tally> {
        match window {
            Some(_) => self.engine.tally(key, by, window).await,
            None => self.again(|_| self.engine.tally(key, by, None)).await,
        }
    }

    async fn close(&self) {
        self.engine.close().await;
    }
}
