//! The engine passes every case on MariaDB, as a user that only may make and use tables and
//! procedures in its database.
#![cfg(unix)]

#[path = "common/deployment.rs"]
mod deployment;

use deployment::{Deployment, arena};
use tenure_core::{Locks, Result};

const MARIADB: Deployment = Deployment("TENURE_TEST_MARIADB_URL");

async fn locks(url: String) -> Result<Locks> {
    tenure_mysql::connect(url).await
}

tenure_conformance::suite!(async || arena(&MARIADB).await, shared: locks);
