//! The peers that are Rust crates, each used as its documentation shows, with a new owner per
//! attempt.

use std::sync::Arc;
use std::time::Duration;

use distkit::DistkitRedisKey;
use distkit::lock::{LockOptions, Mutex};
use distributed_lock_core::error::LockError;
use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_redis::RedisLockProvider;
use redis::aio::ConnectionManager;
use rslock::LockManager;

use crate::contest::contender::{Contender, FAILS, Held, Later, TTL};

/// `rslock`: polls after a random part of 200 ms; no renewal, no token.
pub(crate) struct Rslock(LockManager);

impl Rslock {
    pub(crate) fn connect(urls: &[String]) -> Self {
        Self(LockManager::new(urls.iter().map(String::as_str).collect()))
    }

    pub(crate) fn polling_within(mut self, pause: Duration) -> Self {
        self.0.set_retry(3, pause);
        self
    }
}

impl Contender for Rslock {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let guard = self.0.acquire(key, TTL).await.map_err(|error| error.to_string())?;
            Ok(Held { token: None, release: Box::pin(guard.release()) })
        })
    }
}

/// `distributed-lock-redis`: renews, and does not wait.
pub(crate) struct DistributedLock(Arc<RedisLockProvider>);

impl DistributedLock {
    pub(crate) async fn connect(urls: &[String]) -> Self {
        let provider = RedisLockProvider::builder().urls(urls).build().await.unwrap();
        Self(Arc::new(provider))
    }
}

impl Contender for DistributedLock {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let handle = self.0.create_lock(key).acquire(None).await;
            let handle = handle.map_err(|error| match error {
                LockError::Timeout(_) => FAILS.to_owned(),
                error => error.to_string(),
            })?;
            let release = Box::pin(async move { handle.release().await.unwrap() });
            Ok(Held { token: None, release })
        })
    }
}

/// `distkit`: polls every 50 ms, and renews.
pub(crate) struct Distkit(ConnectionManager);

impl Distkit {
    pub(crate) async fn connect(url: &str) -> Self {
        let client = redis::Client::open(url).unwrap();
        Self(client.get_connection_manager().await.unwrap())
    }
}

impl Contender for Distkit {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let key = DistkitRedisKey::new_or_panic(key.to_owned());
            let mutex = Mutex::new(LockOptions::new(key, self.0.clone()));
            let guard = mutex.lock().await.map_err(|error| error.to_string())?;
            let release = Box::pin(async move {
                guard.release().await.unwrap();
            });
            Ok(Held { token: None, release })
        })
    }
}
