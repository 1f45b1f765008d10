//! The engine for etcd passes every case, on every kind of deployment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime, TicketId};

/// The shortest life that is granted where elections take a second.
const TTL: Duration = Duration::from_secs(2);

/// Returns the URL of a store that no other test uses.
fn fresh_url(variable: &str) -> Option<String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let url = std::env::var(variable).ok().filter(|url| !url.is_empty())?;
    let (place, options) = url.split_once('?').unwrap_or((&url, ""));
    let (fresh, count) = (TicketId::fresh(), COUNT.fetch_add(1, Ordering::Relaxed));
    // A user whose rights are those in the README has no others than those on `tenure/`.
    Some(format!("{place}?{options}&prefix=tenure/{count}-{fresh}"))
}

fn arena(variable: &str) -> Arena {
    let Some(url) = fresh_url(variable) else {
        return Arena::missing("etcd", &format!("{variable} does not say where it is"));
    };
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    let (home, at) = (host.clone(), url.clone());
    let open = move || {
        let (home, at) = (home.clone(), at.clone());
        async move { tenure_etcd::engine(&at, home).await }
    };
    Arena::on(host, TTL, open).in_real_time().shared(url)
}

async fn locks(url: String) -> Result<Locks> {
    tenure_etcd::connect(url).await
}

/// One member alone.
mod one {
    use super::*;

    tenure_conformance::suite!(async || arena("TENURE_TEST_ETCD_URL"), shared: locks);
}

/// One member of the next branch.
mod v3_5 {
    use super::*;

    tenure_conformance::suite!(async || arena("TENURE_TEST_ETCD_3_5_URL"), shared: locks, other_deployment);
}

/// Three members.
mod three {
    use super::*;

    tenure_conformance::suite!(async || arena("TENURE_TEST_ETCD_THREE_URL"), shared: locks, other_deployment);
}

/// A user with only the rights that a lock needs.
mod users {
    use super::*;

    tenure_conformance::suite!(async || arena("TENURE_TEST_ETCD_USERS_URL"), shared: locks, other_deployment);
}
