//! Real stores for tests: servers on loopback that are started for a test and stopped with it.
//!
//! Every server has a folder of its own and listens on 127.0.0.1 only. It is ready when it answers,
//! not when it listens. It is killed when its value is dropped. If the process that started it ends
//! in another way, a [warden](self#the-warden) kills it.
//!
//! ```no_run
//! use tenure_servers::redis::Server;
//!
//! # fn main() -> tenure_servers::Result<()> {
//! let server = Server::start()?;
//! server.command(&["SET", "greeting", "hello"])?;
//! server.kill()?;
//! server.restart()?;
//! println!("{}", server.url());
//! # Ok(())
//! # }
//! ```
//!
//! A [`Deployment`] is a store that all tests of a run share. `cargo xtask test` starts those in
//! [`deployments`], and sets a variable with the URL of each. [`url_of`] reads it.
//!
//! # The warden
//!
//! The first server also starts a small shell script. It reads from a pipe that only this process
//! holds. When the process ends, even by SIGKILL, the pipe is closed. The script then kills the
//! remaining servers and removes the folders. So a server may even be in a `static`.
//!
//! # Errors
//!
//! An error is a sentence for people. A function fails if a tool is not installed, the system
//! refuses, the server refuses, or the server does not answer in time.
//!
//! # What is not promised
//!
//! Servers run on Unix only; other systems have no deployments. Nothing here is hardened: passwords
//! are for tests of passwords.

#![allow(clippy::missing_errors_doc, reason = "the head of this page has them once")]

mod deployment;
mod shared;
mod tool;
mod wheel;

#[cfg(unix)]
mod certificates;
#[cfg(unix)]
mod clock;
#[cfg(unix)]
mod escaped;
#[cfg(unix)]
pub mod etcd;
#[cfg(unix)]
mod folder;
#[cfg(unix)]
pub mod mariadb;
#[cfg(unix)]
pub mod mongodb;
#[cfg(unix)]
mod patience;
#[cfg(unix)]
mod port;
#[cfg(unix)]
pub mod postgres;
#[cfg(unix)]
mod process;
#[cfg(unix)]
pub mod redis;
#[cfg(unix)]
mod server_user;
#[cfg(unix)]
mod warden;
#[cfg(unix)]
pub mod zookeeper;

#[cfg(unix)]
pub use certificates::Certificates;
pub use deployment::{Deployment, Found, Store, deployments};
pub use shared::url_of;
pub use tool::{CHROMEDRIVER, CHROMIUM, JQ, NGINX, NODE, PROMTOOL, PYTHON, Tool, have, tools};
pub use wheel::{Wheel, tools_folder};

/// The result of this crate. An error is a sentence for people.
pub type Result<T, E = String> = std::result::Result<T, E>;
