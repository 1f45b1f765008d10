//! The description of the engine for Redis.

use tenure_kit::options::KnownOption;
use tenure_kit::registry::{EngineDescriptor, OpenedStore, Scheme, Visibility};

const SCHEMES: &[Scheme] = &[
    Scheme::of_servers(
        "redis",
        "redis://SERVER/DB",
        "redis://localhost",
        "one server of Redis or Valkey",
    ),
    Scheme::of_servers("rediss", "rediss://SERVER/DB", "rediss://localhost", "the same, with TLS"),
    Scheme {
        is_path: true,
        ..Scheme::of_servers(
            "redis+unix",
            "redis+unix:///PATH",
            "redis+unix:///run/redis.sock",
            "the same, by its socket on this machine",
        )
    },
    Scheme::of_servers(
        "redis+sentinel",
        "redis+sentinel://S1,S2,S3/SERVICE/DB",
        "redis+sentinel://a,b,c/main",
        "whichever server the sentinels call the master",
    ),
    Scheme::of_servers(
        "redis+cluster",
        "redis+cluster://S1,S2,S3",
        "redis+cluster://a,b,c",
        "a cluster, found through any of these servers",
    ),
    Scheme::of_servers(
        "redlock",
        "redlock://S1,S2,S3",
        "redlock://a,b,c",
        "a majority of servers that know nothing of each other",
    ),
];

pub(crate) const OPTIONS: &[KnownOption] = &[
    KnownOption::new("prefix", "TEXT", "What the names of all keys in Redis begin with"),
    KnownOption::new("timeout", "TIME", "How long one answer is waited for"),
    KnownOption::new("connect_timeout", "TIME", "How long a connection may take to come about"),
    KnownOption::new("tls", "on|off", "Whether the connection is encrypted"),
    KnownOption::file("ca", "Whom to trust, in PEM"),
    KnownOption::file("cert", "The certificate of this client, in PEM"),
    KnownOption::file("key", "The key of that certificate, in PEM"),
    KnownOption::new("acks", "N", "How many replicas must have a ticket before it counts"),
    KnownOption::new(
        "after_restart",
        "trust|refuse",
        "What a server is worth that may have forgotten locks by a restart",
    ),
    KnownOption::new("ttl_max", "TIME", "The longest ttl of all users of these servers"),
    KnownOption::new("user", "NAME", "The user, for a socket"),
    KnownOption::new("password", "TEXT", "The password, for a socket"),
    KnownOption::new("db", "N", "The database, for a socket"),
    KnownOption::new("sentinel_user", "NAME", "The user of the sentinels"),
    KnownOption::new("sentinel_password", "TEXT", "The password of the sentinels"),
];

/// The description of the engine for Redis.
pub const DESCRIPTION: EngineDescriptor = EngineDescriptor {
    name: "redis",
    schemes: SCHEMES,
    options: OPTIONS,
    reach: Visibility::Network,
    open: |url| Box::pin(async move { crate::connect(url).await.map(OpenedStore::from) }),
    look: |url| Box::pin(async move { crate::connect(url).await.map(Some) }),
};
