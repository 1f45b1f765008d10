//! The peer that is a crate: the lock of the engine's client crate.

use zookeeper_client::{Acls, Client, LockOptions, LockPrefix};

use super::floor::{connect, persistent};
use crate::contest::contender::{Contender, Held, Later};

/// Its lock releases on drop, without an await.
pub(crate) struct OfTheCrate {
    client: Client,
}

impl OfTheCrate {
    pub(crate) async fn connect(url: &str) -> Self {
        Self { client: connect(url).await }
    }
}

impl Contender for OfTheCrate {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let folder = format!("/crate/{key}");
            let prefix = LockPrefix::new_curator(&folder, "latch").unwrap();
            let options = LockOptions::new(Acls::anyone_all());
            let options = options.with_ancestor_options(persistent()).unwrap();
            let lock = self.client.lock(prefix, b"", options).await;
            let lock = lock.map_err(|error| error.to_string())?.into_owned();
            let release = Box::pin(async move { drop(lock) });
            Ok(Held { token: None, release })
        })
    }
}
