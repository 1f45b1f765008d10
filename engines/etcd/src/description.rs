//! The description of the engine for etcd.

use tenure_kit::options::KnownOption;
use tenure_kit::registry::{EngineDescriptor, OpenedStore, Scheme, Visibility};

const SCHEMES: &[Scheme] = &[
    Scheme::of_servers(
        "etcd",
        "etcd://M1,M2,M3",
        "etcd://localhost",
        "a cluster of etcd, by any of its members",
    ),
    Scheme::of_servers("etcds", "etcds://M1,M2,M3", "etcds://localhost", "the same, with TLS"),
];

pub(crate) const OPTIONS: &[KnownOption] = &[
    KnownOption::new("prefix", "TEXT", "What the names of all keys in etcd begin with"),
    KnownOption::new("timeout", "TIME", "How long one answer is waited for"),
    KnownOption::new("connect_timeout", "TIME", "How long a connection may take to come about"),
    KnownOption::new("session_ttl", "TIME", "Locks with a shorter ttl live as long as this"),
    KnownOption::file("ca", "Whom to trust, in PEM"),
    KnownOption::file("cert", "The certificate of this client, in PEM"),
    KnownOption::file("key", "The key of that certificate, in PEM"),
];

/// The description of the engine for etcd.
pub const DESCRIPTION: EngineDescriptor = EngineDescriptor {
    name: "etcd",
    schemes: SCHEMES,
    options: OPTIONS,
    reach: Visibility::Network,
    open: |url| Box::pin(async move { crate::connect(url).await.map(OpenedStore::from) }),
    look: |url| Box::pin(async move { crate::connect(url).await.map(Some) }),
};
