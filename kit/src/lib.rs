//! What engines share that speak to a store: how a URL is read, how an engine describes itself, how a connection is
//! kept, and how tickets are told that they are served.
//!
//! Core knows the contract of an engine and no store. An engine knows its store. The kit stands between them, so that
//! an engine is little more than its verbs.

mod call;
mod connect_policy;
pub mod duration;
mod in_flight;
pub mod limiter;
mod link;
mod link_pool;
pub mod options;
pub mod rate_limiter;
pub mod registry;
pub mod secret;
mod server;
pub mod server_facts;
pub mod subscriptions;
mod task;
pub mod tls;
pub mod url;

pub use call::Call;
pub use in_flight::{IN_PLACE_MAX, Room};
pub use link::{Client, Connection, Link, as_transient};
pub use link_pool::LinkPool;
pub use server::{ConnectContext, DisconnectNotifier, Disconnected, Origin, Server};
pub use task::spawn_and_join;
