//! Tenure as a holder of the cases.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::layers::AnyEngine;
use tenure_core::{BoxFuture, LeaseHandle, Locks, MutexGuard, Result, Runtime, TicketId};

use super::{Claim, Client, Holder, Locking, View};

/// Tenure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own;

impl Holder for Own {
    fn name(&self) -> String {
        "tenure".to_owned()
    }

    fn connect(&self, engine: AnyEngine, host: Arc<dyn Runtime>) -> Arc<dyn Client> {
        Arc::new(Locks::on(engine, host))
    }
}

impl Client for Locks {
    fn lock(&self, key: &str, ttl: Duration, wait: Option<Duration>) -> Locking {
        let mutex = self.mutex(key).ttl(ttl);
        Box::pin(async move {
            let guard = match wait {
                Some(time) => mutex.try_lock_for(time).await?,
                None => Some(mutex.lock().await?),
            };
            Ok(guard.map(|guard| -> Box<dyn Claim> { Box::new(guard) }))
        })
    }
}

impl Claim for MutexGuard {
    fn key(&self) -> String {
        MutexGuard::key(self).as_str().to_owned()
    }

    fn token(&self) -> u64 {
        MutexGuard::token(self).get()
    }

    fn id(&self) -> TicketId {
        MutexGuard::id(self)
    }

    fn view(&self) -> Arc<dyn View> {
        Arc::new(self.handle())
    }

    fn release(self: Box<Self>) -> BoxFuture<Result<()>> {
        Box::pin(async move { MutexGuard::release(*self).await })
    }
}

impl View for LeaseHandle {
    fn check(&self) -> Result<()> {
        LeaseHandle::check(self)
    }

    fn lost(&self) -> BoxFuture<()> {
        let held = self.clone();
        Box::pin(async move {
            held.lost().await;
        })
    }
}
