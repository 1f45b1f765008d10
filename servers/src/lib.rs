//! A server is a real store, started for a test on loopback, and gone with it.
//!
//! Every store lives in a folder of its own and listens on 127.0.0.1 alone. It is ready when it
//! answers, not when it listens. It is killed when its value is dropped, and when the process that
//! started it ends in any other way: a [warden](self#the-warden) sees to that.
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
//! A [`Deployment`] is a store that all tests of a run share: `cargo xtask test` starts those in
//! [`deployments`] and tells the tests by a variable where each one is. [`url_of`] reads it.
//!
//! # The warden
//!
//! With the first server, a small shell is started that reads from a pipe which only this process
//! holds. However the process ends, by a kill too, the pipe is closed; the shell then kills what
//! was not stopped, and removes the folders. So a server may even be kept in a `static`.
//!
//! # What is not promised
//!
//! Servers are started on Unix only; elsewhere there are no deployments. Nothing here is hardened:
//! passwords are for tests of passwords.

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
pub mod mongodb;
#[cfg(unix)]
mod patience;
#[cfg(unix)]
mod port;
#[cfg(unix)]
mod process;
#[cfg(unix)]
pub mod redis;
#[cfg(unix)]
mod warden;
#[cfg(unix)]
pub mod zookeeper;

#[cfg(unix)]
pub use certificates::Certificates;
pub use deployment::{Deployment, Found, Store, deployments};
pub use shared::url_of;
pub use tool::{Tool, have, tools};
pub use wheel::{Wheel, tools_folder};

/// What went wrong is a sentence, ready to be shown.
pub type Result<T, E = String> = std::result::Result<T, E>;
