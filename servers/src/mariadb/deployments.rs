//! The deployments of MariaDB.

use super::Setup;
use crate::{Deployment, Tool};

/// The server.
pub const MARIADB: Tool = Tool::file("/usr/sbin/mariadbd", "mariadb-server");
/// The client, and the program that creates the data of a server.
pub(super) const CLIENT: Tool = Tool::program("mariadb", "mariadb-client");
/// The library by which a server is a node of a Galera cluster.
pub const GALERA: Tool = Tool::file("/usr/lib/galera/libgalera_smm.so", "galera-4");
pub(super) const INSTALL: Tool = Tool::program("mariadb-install-db", "mariadb-server");

/// The deployments of this module.
pub(crate) const DEPLOYMENTS: [Deployment; 1] = [Deployment {
    name: "mariadb",
    variable: "TENURE_TEST_MARIADB_URL",
    needs: &[MARIADB, CLIENT, INSTALL],
    // With durable settings, so that it gives the guarantees that the pages show.
    start: || Ok(Box::new(Setup::new().limited_user("locks", "se/cret").durable().start()?)),
}];
