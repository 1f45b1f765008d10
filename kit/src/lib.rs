//! Code that several engines share: the grammar of URLs, the description of an engine, connections
//! to a server, and notifications of tickets.
//!
//! Core defines the contract of an engine and knows no store. An engine knows its store. The kit
//! contains the rest, so that an engine is little more than its verbs.

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
pub mod server_errors;
mod single_flight;
pub mod subscriptions;
pub mod tls;
pub mod url;

pub use in_flight::{IN_PLACE_MAX, Room};
pub use link::{Connection, Link, ServerClient, as_transient};
pub use link_pool::{LinkPool, driven_runtime};
pub use server::{ConnectContext, DisconnectNotifier, Disconnected, Origin, Server};
pub use single_flight::SingleFlight;
pub use tenure_core::toolbox::rfc3339;
