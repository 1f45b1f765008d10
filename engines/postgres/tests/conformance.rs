//! The PostgreSQL engine passes every case, on every kind of deployment, as a user that only may
//! make a schema.
#![cfg(unix)]

#[path = "common/deployment.rs"]
mod deployment;

use deployment::{Deployment, arena};
use tenure_core::{Locks, Result};

async fn locks(url: String) -> Result<Locks> {
    tenure_postgres::connect(url).await
}

/// The version of Debian 12.
mod version_15 {
    use super::*;

    const POSTGRES: Deployment = Deployment("TENURE_TEST_POSTGRES_URL");

    tenure_conformance::suite!(async || arena(&POSTGRES).await, shared: locks);
}

mod version_18 {
    use super::*;

    const POSTGRES_18: Deployment = Deployment("TENURE_TEST_POSTGRES_18_URL");

    tenure_conformance::suite!(async || arena(&POSTGRES_18).await, shared: locks, other_deployment);
}

/// pgbouncer, which gives each statement any connection. So it does the same as in its mode
/// `transaction`: each verb is one statement.
mod statement {
    use super::*;

    const POOLED: Deployment = Deployment("TENURE_TEST_POSTGRES_STATEMENT_URL");

    tenure_conformance::suite!(async || arena(&POOLED).await, shared: locks, other_deployment);
}

/// A primary with a synchronous standby.
mod standby {
    use super::*;

    const STANDBY: Deployment = Deployment("TENURE_TEST_POSTGRES_STANDBY_URL");

    tenure_conformance::suite!(async || arena(&STANDBY).await, shared: locks, other_deployment);
}
