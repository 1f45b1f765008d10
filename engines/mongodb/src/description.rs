//! The description of the engine for MongoDB: its schemes and options.

use tenure_kit::options::KnownOption;
use tenure_kit::registry::{EngineDescriptor, OpenedStore, Scheme, Visibility};

const SCHEMES: &[Scheme] = &[
    Scheme {
        name: "mongodb",
        form: "mongodb://SERVER,SERVER/DATABASE",
        example: "mongodb://localhost/?replicaSet=rs0",
        about: "MongoDB: a replica set, a sharded cluster, or one server",
        is_path: false,
    },
    Scheme {
        name: "mongodb+srv",
        form: "mongodb+srv://NAME/DATABASE",
        example: "mongodb+srv://cluster.example.net",
        about: "the same, whose servers are listed in DNS",
        is_path: false,
    },
];

/// Options of Tenure's own.
pub(crate) const OWN: &[KnownOption] = &[
    KnownOption::new("database", "NAME", "The database that keeps the locks"),
    KnownOption::new("collection", "NAME", "The collection that keeps the locks"),
    KnownOption::new("timeout", "TIME", "How long one answer is waited for"),
];

/// Options that people write most often. The driver accepts all its others as well.
const OPTIONS: &[KnownOption] = &[
    OWN[0],
    OWN[1],
    OWN[2],
    KnownOption::new("replicaSet", "NAME", "The name of the replica set"),
    KnownOption::new("directConnection", "true|false", "Whether only the named server is asked"),
    KnownOption::new("authSource", "NAME", "The database that knows the user"),
    KnownOption::new("authMechanism", "NAME", "How the user is known"),
    KnownOption::new("tls", "true|false", "Whether the connection is encrypted"),
    KnownOption::file("tlsCAFile", "Whom to trust, in PEM"),
    KnownOption::file("tlsCertificateKeyFile", "Certificate and key of this client, in PEM"),
    KnownOption::new("connectTimeoutMS", "N", "How long a connection may take to come about"),
    KnownOption::new("serverSelectionTimeoutMS", "N", "How long a server is looked for"),
    KnownOption::new(
        "heartbeatFrequencyMS",
        "N",
        "How often each server is asked whether it is there",
    ),
    KnownOption::new("minPoolSize", "N", "How many connections are kept open"),
    KnownOption::new("maxPoolSize", "N", "How many connections there may be"),
    KnownOption::new("appName", "TEXT", "What the server's log calls this client"),
];

/// The description of the engine for MongoDB.
pub const DESCRIPTION: EngineDescriptor = EngineDescriptor {
    name: "mongodb",
    schemes: SCHEMES,
    options: OPTIONS,
    reach: Visibility::Network,
    open: |url| Box::pin(async move { crate::connect(url).await.map(OpenedStore::from) }),
    look: |url| Box::pin(async move { crate::connect(url).await.map(Some) }),
};
