//! Until: the time that a caller waits for all of its locks.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tenure_core::{ReadGuard, Result, RwLock, WriteGuard};

/// Time that a caller waits for all of its locks. The waits are boxed, because their futures are
/// large and lie within the caller's.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    Served,
    Now,
    Then(Instant),
}

impl Until {
    pub(crate) fn within(time: Duration) -> Self {
        Instant::now().checked_add(time).map_or(Self::Served, Self::Then)
    }

    pub(crate) fn write(self, lock: &RwLock) -> BoxFuture<'_, Result<Option<WriteGuard>>> {
        Box::pin(async move {
            match self {
                Self::Served => lock.write().await.map(Some),
                Self::Now => lock.try_write().await,
                Self::Then(then) => lock.try_write_for(left(then)).await,
            }
        })
    }

    pub(crate) fn read(self, lock: &RwLock) -> BoxFuture<'_, Result<Option<ReadGuard>>> {
        Box::pin(async move {
            match self {
                Self::Served => lock.read().await.map(Some),
                Self::Now => lock.try_read().await,
                Self::Then(then) => lock.try_read_for(left(then)).await,
            }
        })
    }
}

fn left(then: Instant) -> Duration {
    then.saturating_duration_since(Instant::now())
}
