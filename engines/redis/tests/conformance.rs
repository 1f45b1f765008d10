//! The Redis engine passes every case, on every kind of deployment.

#[path = "common/deployment.rs"]
mod deployment;

use deployment::{Deployment, arena};
use tenure_core::{Locks, Result};

async fn locks(url: String) -> Result<Locks> {
    tenure_redis::connect(url).await
}

/// One server.
mod one {
    use super::*;

    const ONE: Deployment = Deployment::of("TENURE_TEST_REDIS_URL");

    tenure_conformance::suite!(async || arena(&ONE).await, shared: locks);
}

/// One server, called from the caller's runtime.
mod caller {
    use super::*;

    const CALLER: Deployment = Deployment::of("TENURE_TEST_REDIS_URL").called_from_a_runtime();

    tenure_conformance::suite!(async || arena(&CALLER).await, shared: locks, other_deployment);
}

/// TLS, and a user with only the rights that a lock needs.
mod tls {
    use super::*;

    const TLS: Deployment = Deployment::of("TENURE_TEST_REDIS_TLS_URL");

    tenure_conformance::suite!(async || arena(&TLS).await, shared: locks, other_deployment);
}

mod sentinel {
    use super::*;

    const SENTINEL: Deployment =
        Deployment::of("TENURE_TEST_REDIS_SENTINEL_URL").with_options("acks=1");

    tenure_conformance::suite!(async || arena(&SENTINEL).await, shared: locks, other_deployment);
}

mod cluster {
    use super::*;

    const CLUSTER: Deployment = Deployment::of("TENURE_TEST_REDIS_CLUSTER_URL");

    tenure_conformance::suite!(async || arena(&CLUSTER).await, shared: locks);
}

/// A majority of independent servers, started for the tests. Each of a hundred waiters calls five
/// servers, so all cases are slower.
mod redlock {
    use std::time::Duration;

    use super::*;

    const REDLOCK: Deployment = Deployment::of("TENURE_TEST_REDLOCK_URL")
        .with_options("after_restart=trust")
        .with_ttl(Duration::from_secs(4));

    tenure_conformance::suite!(async || arena(&REDLOCK).await, shared: locks);
}

/// Where the system's packages have it.
mod valkey {
    use super::*;

    const VALKEY: Deployment = Deployment::of("TENURE_TEST_VALKEY_URL").may_be_missing();

    tenure_conformance::suite!(async || arena(&VALKEY).await, shared: locks, other_deployment);
}
