//! MariaDB: one server.

mod deployments;
mod programs;
mod replica;
mod server;
mod setup;

pub(crate) use deployments::DEPLOYMENTS;
pub use deployments::{GALERA, MARIADB};
pub use programs::may_mount;
pub use server::Server;
pub use setup::Setup;
