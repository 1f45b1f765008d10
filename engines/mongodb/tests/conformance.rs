//! The MongoDB engine passes every case, on every kind of deployment.
#![cfg(unix)]

#[path = "common/deployment.rs"]
mod deployment;

use deployment::{Deployment, arena};
use tenure_core::{Locks, Result};

async fn locks(url: String) -> Result<Locks> {
    tenure_mongodb::connect(url).await
}

/// A replica set of one member.
mod set {
    use super::*;

    const SET: Deployment = Deployment("TENURE_TEST_MONGODB_URL");

    tenure_conformance::suite!(async || arena(&SET).await, shared: locks);
}

/// Three members, whose majority confirms.
mod members {
    use super::*;

    const MEMBERS: Deployment = Deployment("TENURE_TEST_MONGODB_MEMBERS_URL");

    tenure_conformance::suite!(async || arena(&MEMBERS).await, shared: locks, other_deployment);
}

/// One server without a set, which has no change streams, by TLS, and a user with only the rights
/// that a lock needs.
mod standalone {
    use super::*;

    const STANDALONE: Deployment = Deployment("TENURE_TEST_MONGODB_STANDALONE_URL");

    tenure_conformance::suite!(async || arena(&STANDALONE).await, shared: locks, other_deployment);
}
