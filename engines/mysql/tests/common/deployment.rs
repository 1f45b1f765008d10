//! A deployment: where its server is, and fresh tables on it for each case.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_core::layers::AnyEngine;
use tenure_core::{BackgroundRuntime, Runtime};

/// Life of tickets that are to end within their case.
const TTL: Duration = Duration::from_secs(3);

/// One kind of deployment, named by the variable that says where it is.
pub(crate) struct Deployment(pub(crate) &'static str);

impl Deployment {
    /// A URL of empty tables on it.
    pub(crate) fn fresh_url(&self) -> Result<String, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let url = tenure_servers::url_of(self.0)?;
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let between = if url.contains('?') { '&' } else { '?' };
        // A repeated leave cannot tell what its first try did, so no answer may be late here.
        Ok(format!("{url}{between}timeout=30s&prefix=case_{process}_{count}_"))
    }
}

/// Opens a store on this deployment.
pub(crate) async fn arena(deployment: &Deployment) -> Arena {
    let url = match deployment.fresh_url() {
        Ok(url) => url,
        Err(why) => return Arena::missing("mysql", &why),
    };
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    let (home, at) = (host.clone(), url.clone());
    let open = move || {
        let (home, at) = (home.clone(), at.clone());
        async move { Ok(AnyEngine::new(tenure_mysql::engine(&at, home).await?)) }
    };
    Arena::on(host, TTL, open).in_real_time().shared(url)
}
