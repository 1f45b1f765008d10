//! Redis and Valkey: one server, Sentinel, Cluster, or independent masters.

mod client;
mod cluster;
mod deployments;
mod masters;
mod relocation;
mod reply;
mod rights;
mod sentinels;
mod server;
mod setup;

pub use client::Client;
pub use cluster::Cluster;
pub(crate) use deployments::DEPLOYMENTS;
pub use deployments::{REDIS, VALKEY};
pub use masters::Masters;
pub use relocation::Relocation;
pub use reply::Reply;
pub use rights::Rights;
pub use sentinels::Sentinels;
pub use server::Server;
pub use setup::Setup;

pub use crate::clock::FAKETIME;
