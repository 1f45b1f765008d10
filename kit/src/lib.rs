//! What engines share that speak to a store: how a URL is read, how an engine describes itself, how a connection is
//! kept, and how tickets are told that they are served.
//!
//! Core knows the contract of an engine and no store. An engine knows its store. The kit stands between them, so that
//! an engine is little more than its verbs.

mod aside;
mod attempts;
mod call;
mod calls;
pub mod duration;
pub mod findings;
mod home;
mod link;
pub mod mailbox;
pub mod options;
pub mod pace;
pub mod register;
pub mod rooms;
pub mod secret;
mod server;
pub mod tls;
pub mod url;

pub use aside::spawn_and_join;
pub use call::Call;
pub use calls::{IN_PLACE_MAX, Room};
pub use home::LinkPool;
pub use link::{Client, Connection, Link, as_transient};
pub use server::{Disconnected, DisconnectNotifier, ConnectContext, Server, Origin};
