//! The description of the engine for MariaDB and MySQL.

use tenure_kit::options::KnownOption;
use tenure_kit::registry::{EngineDescriptor, OpenedStore, Scheme, Visibility};

const SCHEMES: &[Scheme] = &[
    Scheme::of_servers(
        "mysql",
        "mysql://USER:PASSWORD@HOST,HOST/DATABASE",
        "mysql://root@localhost/test",
        "a database of MySQL or MariaDB, on the host that takes writes",
    ),
    Scheme::of_servers(
        "mariadb",
        "mariadb://USER:PASSWORD@HOST,HOST/DATABASE",
        "mariadb://root@localhost/test",
        "the same",
    ),
];

pub(crate) const OPTIONS: &[KnownOption] = &[
    KnownOption::new("prefix", "TEXT", "The begin of the names of tables and procedures"),
    KnownOption::new(
        "ssl-mode",
        "MODE",
        "`VERIFY_IDENTITY` for TLS, which always checks the certificate; `DISABLED` for none",
    ),
    KnownOption::file("ssl-ca", "The trusted authorities, in PEM"),
    KnownOption::file("ssl-cert", "The certificate of this client, in PEM"),
    KnownOption::file("ssl-key", "The key of that certificate, in PEM"),
    KnownOption::file("socket", "The server's Unix socket, in the place of its host"),
    KnownOption::new("timeout", "TIME", "The time limit of one answer"),
    KnownOption::new("connect_timeout", "TIME", "The time limit of a new connection"),
];

/// The description of the engine for MariaDB and MySQL.
pub const DESCRIPTION: EngineDescriptor = EngineDescriptor {
    name: "mysql",
    schemes: SCHEMES,
    options: OPTIONS,
    reach: Visibility::Network,
    open: |url| Box::pin(async move { crate::connect(url).await.map(OpenedStore::from) }),
    look: |url| Box::pin(async move { crate::connect(url).await.map(Some) }),
};
