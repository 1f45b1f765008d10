//! Tenure's own holder, as the cases see any holder.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::wrap::AnyEngine;
use tenure_core::{Boxed, Guard, Held, Host, Locks, Result, TicketId};

use super::{Claim, Client, Holder, Locking, View};

/// Tenure itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own;

impl Holder for Own {
    fn name(&self) -> String {
        "tenure".to_owned()
    }

    fn connect(&self, engine: AnyEngine, host: Arc<dyn Host>) -> Arc<dyn Client> {
        Arc::new(Locks::on(engine, host))
    }
}

impl Client for Locks {
    fn lock(&self, key: &str, ttl: Duration, wait: Option<Duration>) -> Locking {
        let mutex = self.mutex(key).ttl(ttl);
        Box::pin(async move {
            let guard = match wait {
                Some(time) => mutex.lock_within(time).await?,
                None => Some(mutex.lock().await?),
            };
            Ok(guard.map(|guard| -> Box<dyn Claim> { Box::new(guard) }))
        })
    }
}

impl Claim for Guard {
    fn key(&self) -> String {
        Held::key(self).as_str().to_owned()
    }

    fn token(&self) -> u64 {
        Held::token(self)
    }

    fn id(&self) -> TicketId {
        Held::id(self)
    }

    fn view(&self) -> Arc<dyn View> {
        Arc::new(self.held())
    }

    fn release(self: Box<Self>) -> Boxed<Result<()>> {
        Box::pin(async move { Guard::release(*self).await })
    }
}

impl View for Held {
    fn check(&self) -> Result<()> {
        Held::check(self)
    }

    fn lost(&self) -> Boxed<()> {
        let held = self.clone();
        Box::pin(async move {
            held.lost().await;
        })
    }
}
