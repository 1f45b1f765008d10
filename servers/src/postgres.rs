//! PostgreSQL: one server, a server with a standby, or a server behind pgbouncer.

mod deployments;
mod pooler;
mod processes;
mod programs;
mod server;
mod setup;
mod standby;

pub(crate) use deployments::DEPLOYMENTS;
pub use deployments::{PGBOUNCER, POSTGRES, POSTGRES_18};
pub use pooler::{Mode, Pooler};
pub use server::Server;
pub use setup::Setup;

pub use crate::clock::FAKETIME;
