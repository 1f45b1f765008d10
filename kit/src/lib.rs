//! What engines share that speak to a store: how a URL is read, how an engine describes itself, how a connection is
//! kept, and how tickets are told that they are served.
//!
//! Core knows the contract of an engine and no store. An engine knows its store. The kit stands between them, so that
//! an engine is little more than its verbs.

mod task;
mod connect_policy;
mod call;
mod in_flight;
pub mod duration;
pub mod server_facts;
mod link_pool;
mod link;
pub mod subscriptions;
pub mod options;
pub mod rate_limiter;
pub mod registry;
pub mod limiter;
pub mod secret;
mod server;
pub mod tls;
pub mod url;

pub use task::spawn_and_join;
pub use call::Call;
pub use in_flight::{IN_PLACE_MAX, Room};
pub use link_pool::LinkPool;
pub use link::{Client, Connection, Link, as_transient};
pub use server::{Disconnected, DisconnectNotifier, ConnectContext, Server, Origin};
