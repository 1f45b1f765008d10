//! The description of the engine for ZooKeeper.

use tenure_kit::options::KnownOption;
use tenure_kit::registry::{EngineDescriptor, OpenedStore, Scheme, Visibility};

const SCHEMES: &[Scheme] = &[
    Scheme::of_servers(
        "zookeeper",
        "zookeeper://S1,S2,S3/CHROOT",
        "zookeeper://localhost",
        "an ensemble of ZooKeeper, by any of its servers",
    ),
    Scheme::of_servers(
        "zookeepers",
        "zookeepers://S1,S2,S3/CHROOT",
        "zookeepers://localhost?ca=ca.pem",
        "the same, with TLS, in a program with the feature `zookeeper-tls`",
    ),
];

pub(crate) const OPTIONS: &[KnownOption] = &[
    KnownOption::new("prefix", "TEXT", "The node below which all locks are kept"),
    KnownOption::new("timeout", "TIME", "How long one answer is waited for"),
    KnownOption::new("connect_timeout", "TIME", "How long a connection may take to come about"),
    KnownOption::new(
        "acl",
        "WHO",
        "Who may see and change what is kept: open, creator, or digest:USER:HASH",
    ),
    KnownOption::file("ca", "Whom to trust, in PEM"),
    KnownOption::file("cert", "The certificate of this client, in PEM"),
    KnownOption::file("key", "The key of that certificate, in PEM"),
];

/// The description of the engine for ZooKeeper.
pub const DESCRIPTION: EngineDescriptor = EngineDescriptor {
    name: "zookeeper",
    schemes: SCHEMES,
    options: OPTIONS,
    reach: Visibility::Network,
    open: |url| Box::pin(async move { crate::connect(url).await.map(OpenedStore::from) }),
    look: |url| Box::pin(async move { crate::connect(url).await.map(Some) }),
};
