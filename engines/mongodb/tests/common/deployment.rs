//! A deployment: where its servers are, and a fresh store on them for each case.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_core::layers::{AnyEngine, OnRuntime};
use tenure_core::{BackgroundRuntime, Runtime, TicketId};
use tenure_mongodb::MongoStore;

/// Life of tickets that are to end within their case. A heartbeat is a fifth of it, and its answer
/// comes within a twentieth: three members, whose journals confirm, and a hundred clients share one
/// machine with other tests.
const TTL: Duration = Duration::from_secs(4);

/// One kind of deployment, named by the variable that says where it is.
pub(crate) struct Deployment(pub(crate) &'static str);

impl Deployment {
    /// A URL of an empty store on it.
    fn fresh_url(&self) -> Result<String, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let url = tenure_servers::url_of(self.0)?;
        let (fresh, count) = (TicketId::fresh(), COUNT.fetch_add(1, Ordering::Relaxed));
        let between = if url.contains('?') { '&' } else { '?' };
        // A repeated leave cannot tell what its first try did, so no answer may be late here.
        Ok(format!("{url}{between}timeout=30s&collection=case-{count}-{fresh}"))
    }
}

/// Opens a store on this deployment.
pub(crate) async fn arena(deployment: &Deployment) -> Arena {
    let url = match deployment.fresh_url() {
        Ok(url) => url,
        Err(why) => return Arena::missing("mongodb", &why),
    };
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    let (home, at) = (host.clone(), url.clone());
    let open = move || {
        let (home, at) = (home.clone(), at.clone());
        async move {
            let store = OnRuntime::make(home, async move { MongoStore::open(&at).await }).await?;
            Ok(AnyEngine::new(store))
        }
    };
    Arena::on(host, TTL, open).in_real_time().shared(url)
}
