//! Locks on documents, and on parts of them, pass every case of the suite.
#![cfg(unix)]

#[path = "documents/shop.rs"]
mod shop;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shop::{Shelves, Shop};
use tenure_conformance::Arena;
use tenure_core::layers::{AnyEngine, OnRuntime};
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime, TicketId};
use tenure_mongodb_documents::MemoryDocuments;

/// Life of tickets that are to end within their case.
const TTL: Duration = Duration::from_secs(4);

/// A store on a collection of its own.
fn arena(shelves: Shelves) -> Arena {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let url = match tenure_servers::url_of("TENURE_TEST_MONGODB_URL") {
        Ok(url) => url,
        Err(why) => return Arena::missing("mongodb", &why),
    };
    let (fresh, count) = (TicketId::fresh(), COUNT.fetch_add(1, Ordering::Relaxed));
    // A repeated leave cannot tell what its first try did, so no answer may be late here.
    let url = format!("{url}&collection=shop-{count}-{fresh}&timeout=30s");
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    let (home, at, names) = (host.clone(), url.clone(), shop::Names::default());
    let open = move || {
        let (home, at, names) = (home.clone(), at.clone(), names.clone());
        async move {
            let shop = OnRuntime::make(home, async move { Shop::open(&at, shelves, names).await });
            Ok(AnyEngine::new(shop.await?))
        }
    };
    Arena::on(host, TTL, open).in_real_time().shared(url)
}

async fn locks(url: String, shelves: Shelves) -> Result<Locks> {
    Locks::hosted(async move { Shop::open(&url, shelves, shop::Names::default()).await }).await
}

/// Whole documents.
mod wholes {
    use super::*;

    async fn locks(url: String) -> Result<Locks> {
        super::locks(url, Shelves::Wholes).await
    }

    tenure_conformance::suite!(async || arena(Shelves::Wholes), shared: locks, other_deployment);
}

/// Elements of an array inside another array of one document.
mod parts {
    use super::*;

    async fn locks(url: String) -> Result<Locks> {
        super::locks(url, Shelves::Parts).await
    }

    tenure_conformance::suite!(async || arena(Shelves::Parts), shared: locks);
}

/// Whole documents in memory.
mod in_memory {
    use super::*;

    fn memory() -> Arena {
        let (documents, names) = (MemoryDocuments::new(), shop::Names::default());
        Arena::new(move || ready(Shop::in_memory(&documents, names.clone())))
    }

    tenure_conformance::suite!(async || memory());
}
