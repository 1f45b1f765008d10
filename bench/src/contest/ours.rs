//! Tenure, through its public interface.

use tenure_core::Locks;

use super::contender::{Contender, Held, Later};

pub(crate) struct Tenure(pub(crate) Locks);

impl Contender for Tenure {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let guard = self.0.mutex(key).lock().await.map_err(|error| error.to_string())?;
            let token = Some(guard.token().get());
            Ok(Held { token, release: Box::pin(async move { guard.release().await.unwrap() }) })
        })
    }

    fn line<'a>(&'a self, key: &'a str) -> Later<'a, Option<u64>> {
        Box::pin(async move { Some(self.0.line(key).await.unwrap().len() as u64) })
    }
}

/// The same with a dropped guard, whose release is not awaited, as for peers without another
/// release.
pub(crate) struct Dropped(pub(crate) Locks);

impl Contender for Dropped {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let guard = self.0.mutex(key).lock().await.map_err(|error| error.to_string())?;
            let token = Some(guard.token().get());
            Ok(Held { token, release: Box::pin(async move { drop(guard) }) })
        })
    }
}
