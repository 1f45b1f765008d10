//! The engine for ZooKeeper passes every case, on every kind of deployment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime, TicketId};

/// Four ticks of the servers: long enough that a busy machine renews leases in time.
const TTL: Duration = Duration::from_secs(2);

/// Returns the URL of a store that no other test uses.
fn fresh_url(variable: &str) -> Option<String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let url = std::env::var(variable).ok().filter(|url| !url.is_empty())?;
    let (place, options) = url.split_once('?').unwrap_or((&url, ""));
    let (fresh, count) = (TicketId::fresh(), COUNT.fetch_add(1, Ordering::Relaxed));
    Some(format!("{place}?{options}&prefix=tenure/{count}-{fresh}"))
}

fn arena(variable: &str) -> Arena {
    arena_of(fresh_url(variable), variable)
}

fn arena_of(url: Option<String>, variable: &str) -> Arena {
    let Some(url) = url else {
        return Arena::missing("ZooKeeper", &format!("{variable} does not say where it is"));
    };
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    let (home, at) = (host.clone(), url.clone());
    let open = move || {
        let (home, at) = (home.clone(), at.clone());
        async move { tenure_zookeeper::engine(&at, home).await }
    };
    Arena::on(host, TTL, open).in_real_time().shared(url)
}

async fn locks(url: String) -> Result<Locks> {
    tenure_zookeeper::connect(url).await
}

/// One server alone.
mod one {
    use super::*;

    tenure_conformance::suite!(async || arena("TENURE_TEST_ZOOKEEPER_URL"), shared: locks);
}

/// An ensemble of three.
mod three {
    use super::*;

    tenure_conformance::suite!(async || arena("TENURE_TEST_ZOOKEEPER_THREE_URL"), shared: locks, other_deployment);
}

/// All nodes belong to a user who logs in, by TLS.
#[cfg(feature = "tls")]
mod tls_and_digest {
    use super::*;

    const VARIABLE: &str = "TENURE_TEST_ZOOKEEPER_TLS_URL";

    tenure_conformance::suite!(async || arena_of(user(VARIABLE), VARIABLE), shared: locks, other_deployment);
}

/// Returns the URL of a user, who owns the nodes that it makes and the node above all of them.
#[cfg(feature = "tls")]
fn user(variable: &str) -> Option<String> {
    let url = fresh_url(variable)?.replacen("prefix=tenure/", "prefix=of-a-user/", 1);
    Some(url.replacen("://", "://locks:hunter2@", 1))
}
