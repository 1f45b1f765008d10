//! The Redis engine passes every case, on every kind of deployment.

use std::sync::atomic::{AtomicU64, Ordering};

use tenure_conformance::Arena;
use tenure_core::{Locks, Result};
use tenure_redis::RedisStore;

/// A store of its own for each case: the same server under another prefix.
async fn arena() -> Arena {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Ok(url) = std::env::var("TENURE_TEST_REDIS_URL") else {
        return Arena::missing("redis", "no server");
    };
    let nanos =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    let url = format!("{url}?prefix=t{nanos:x}.{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let at = url.clone();
    Arena::hosted(move || {
        let url = url.clone();
        async move { RedisStore::open(&url).await }
    })
    .shared(at)
}

async fn locks(url: String) -> Result<Locks> {
    tenure_redis::connect(url).await
}

tenure_conformance::suite!(arena, shared: locks);
