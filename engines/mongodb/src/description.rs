//! What the engine for MongoDB says of itself.

use tenure_kit::options::Known;
use tenure_kit::register::{EngineDescriptor, OpenedStore, Visibility, Scheme};

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

/// The options that are Tenure's own.
pub(crate) const OWN: &[Known] = &[
    Known::new("database", "NAME", "The database that keeps the locks"),
    Known::new("collection", "NAME", "The collection that keeps the locks"),
    Known::new("timeout", "TIME", "How long one answer is waited for"),
];

/// Those that people write most often; the driver takes all of its others as well.
const OPTIONS: &[Known] = &[
    OWN[0],
    OWN[1],
    OWN[2],
    Known::new("replicaSet", "NAME", "The name of the replica set"),
    Known::new("directConnection", "true|false", "Whether only the named server is asked"),
    Known::new("authSource", "NAME", "The database that knows the user"),
    Known::new("authMechanism", "NAME", "How the user is known"),
    Known::new("tls", "true|false", "Whether the connection is encrypted"),
    Known::file("tlsCAFile", "Whom to trust, in PEM"),
    Known::file("tlsCertificateKeyFile", "Certificate and key of this client, in PEM"),
    Known::new("connectTimeoutMS", "N", "How long a connection may take to come about"),
    Known::new("serverSelectionTimeoutMS", "N", "How long a server is looked for"),
    Known::new("heartbeatFrequencyMS", "N", "How often each server is asked whether it is there"),
    Known::new("minPoolSize", "N", "How many connections are kept open"),
    Known::new("maxPoolSize", "N", "How many connections there may be"),
    Known::new("appName", "TEXT", "What the server's log calls this client"),
];

/// What the engine for MongoDB is.
pub const DESCRIPTION: EngineDescriptor = EngineDescriptor {
    name: "mongodb",
    schemes: SCHEMES,
    options: OPTIONS,
    reach: Visibility::Network,
    open: |url| Box::pin(async move { crate::connect(url).await.map(OpenedStore::from) }),
    look: |url| Box::pin(async move { crate::connect(url).await.map(Some) }),
};
