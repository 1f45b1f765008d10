//! The peers: a crate, used as its documentation shows, and a lock that articles describe.

use std::time::{Duration, SystemTime};

use mongodb::bson::{DateTime, Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::{Client, Collection, Database};

use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _};
use distributed_lock_mongo::MongoDistributedLock;

use super::POLL_MS;
use super::floor::collection;
use crate::contest::contender::{Contender, Held, Later, TTL};

const DUPLICATE_KEY: i32 = 11000;

/// The crate `distributed-lock-mongo`: polls every 10 ms; no renewal, no token, no loss.
pub(crate) struct DistributedLock(Database);

impl DistributedLock {
    pub(crate) async fn connect(url: &str) -> Self {
        Self(Client::with_uri_str(url).await.unwrap().database("bench"))
    }
}

impl Contender for DistributedLock {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let lock = MongoDistributedLock::new(key.to_owned(), self.0.clone(), None, None);
            let handle = lock.acquire(None).await.map_err(|error| error.to_string())?;
            let release = Box::pin(async move { handle.release().await.unwrap() });
            Ok(Held { token: None, release })
        })
    }
}

/// A record that is created, or taken over after its expiry by the client's clock; waiters poll.
pub(crate) struct Polling(Collection<Document>);

impl Polling {
    pub(crate) async fn connect(url: &str) -> Self {
        Self(collection(url, "polling").await)
    }

    /// Takes the record if it is free, and returns whether it did.
    async fn take(&self, key: &str, owner: DateTime) -> Result<bool, Error> {
        let now = DateTime::now();
        let until = DateTime::from_system_time(SystemTime::now() + TTL);
        let taken = self
            .0
            .find_one_and_update(
                doc! { "_id": key, "until": { "$lt": now } },
                doc! { "$set": { "owner": owner, "until": until } },
            )
            .upsert(true)
            .await;
        match taken {
            Ok(_) => Ok(true),
            Err(error) if is_duplicate(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Contender for Polling {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let owner = DateTime::now();
            while !self.take(key, owner).await.map_err(|error| error.to_string())? {
                tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
            }
            let (records, key) = (self.0.clone(), key.to_owned());
            let release = Box::pin(async move {
                records.delete_one(doc! { "_id": key, "owner": owner }).await.unwrap();
            });
            Ok(Held { token: None, release })
        })
    }
}

fn is_duplicate(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Command(error) if error.code == DUPLICATE_KEY)
}
