//! MongoDB: a standalone server, a replica set of one member, or one of several.

mod client;
mod deployments;
mod members;
mod rights;
mod server;
mod setup;

pub use bson::{Document, doc};
pub use client::Client;
pub(crate) use deployments::DEPLOYMENTS;
pub use deployments::MONGOD;
pub use members::Members;
pub use rights::role;
pub use server::Server;
pub use setup::Setup;

pub use crate::clock::FAKETIME;
