//! The deployments of Redis and Valkey.

use super::{Cluster, Masters, Rights, Sentinels, Server, Setup};
use crate::{Deployment, Tool};

/// The server of Redis, 7 or later.
pub const REDIS: Tool = Tool::program("redis-server", "redis-server");
/// The server of Valkey, which Debian 12 does not have yet.
pub const VALKEY: Tool = Tool::program("valkey-server", "valkey-server").not_required();

/// Number of masters of the RedLock.
const MASTERS: usize = 5;

/// Returns a setup in which the engine has exactly the rights of its README.
fn limited(rights: Rights) -> Setup {
    Setup::new().limited_user("locks", "secret", rights)
}

/// The deployments of this module.
pub(crate) const DEPLOYMENTS: [Deployment; 6] = [
    Deployment {
        name: "redis",
        variable: "TENURE_TEST_REDIS_URL",
        needs: &[REDIS],
        start: || Ok(Box::new(Server::start()?)),
    },
    Deployment {
        name: "redis-tls",
        variable: "TENURE_TEST_REDIS_TLS_URL",
        needs: &[REDIS],
        start: || Ok(Box::new(limited(Rights::Server).mutual_tls().start()?)),
    },
    Deployment {
        name: "redis-sentinel",
        variable: "TENURE_TEST_REDIS_SENTINEL_URL",
        needs: &[REDIS],
        start: || Ok(Box::new(Sentinels::over(&limited(Rights::Server), 1)?)),
    },
    Deployment {
        name: "redis-cluster",
        variable: "TENURE_TEST_REDIS_CLUSTER_URL",
        needs: &[REDIS],
        start: || Ok(Box::new(Cluster::of(&limited(Rights::Cluster), 0)?)),
    },
    Deployment {
        name: "redlock",
        variable: "TENURE_TEST_REDLOCK_URL",
        needs: &[REDIS],
        start: || Ok(Box::new(Masters::of(&limited(Rights::Server), MASTERS)?)),
    },
    Deployment {
        name: "valkey",
        variable: "TENURE_TEST_VALKEY_URL",
        needs: &[VALKEY],
        start: || Ok(Box::new(Setup::new().valkey().start()?)),
    },
];
