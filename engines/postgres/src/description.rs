//! The description of the engine for PostgreSQL.

use tenure_kit::options::KnownOption;
use tenure_kit::registry::{EngineDescriptor, OpenedStore, Scheme, Visibility};

const SCHEMES: &[Scheme] = &[
    Scheme::of_servers(
        "postgres",
        "postgres://USER:PASSWORD@HOST,HOST/DATABASE",
        "postgres://localhost/postgres",
        "a database of PostgreSQL, on the host that is the primary",
    ),
    Scheme::of_servers(
        "postgresql",
        "postgresql://USER:PASSWORD@HOST,HOST/DATABASE",
        "postgresql://localhost/postgres",
        "the same",
    ),
];

pub(crate) const OPTIONS: &[KnownOption] = &[
    KnownOption::new("schema", "NAME", "The schema with the tables of the locks"),
    KnownOption::new(
        "sslmode",
        "MODE",
        "`verify-full` for TLS, which always checks the certificate; `disable` for none",
    ),
    KnownOption::file("sslrootcert", "The trusted authorities, in PEM"),
    KnownOption::file("sslcert", "The certificate of this client, in PEM"),
    KnownOption::file("sslkey", "The key of that certificate, in PEM"),
    KnownOption::new("host", "DIRECTORY", "The directory of the server's Unix socket"),
    KnownOption::new(
        "target_session_attrs",
        "read-write",
        "Locks need the primary, so this is the only value",
    ),
    KnownOption::new("application_name", "TEXT", "The name of this client in `pg_stat_activity`"),
    KnownOption::new("timeout", "TIME", "The time limit of one answer"),
    KnownOption::new("connect_timeout", "TIME", "The time limit of a new connection"),
    KnownOption::new(
        "notify",
        "auto|poll",
        "Whether waiters are notified, or poll without a second connection",
    ),
    KnownOption::new("notify_host", "HOST:PORT", "The server behind the pooler, for notifications"),
];

/// The description of the engine for PostgreSQL.
pub const DESCRIPTION: EngineDescriptor = EngineDescriptor {
    name: "postgres",
    schemes: SCHEMES,
    options: OPTIONS,
    reach: Visibility::Network,
    open: |url| Box::pin(async move { crate::connect(url).await.map(OpenedStore::from) }),
    look: |url| Box::pin(async move { crate::connect(url).await.map(Some) }),
};
