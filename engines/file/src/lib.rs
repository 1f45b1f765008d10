//! Locks between the processes of one machine: a directory instead of a server.
//!
//! The tickets of a line are alive for as long as the kernel keeps their process's file locked. A
//! process that dies, however it dies, is out of every line at once, and who stood behind it is
//! woken. There is no ttl, no clock that has to be right, and no polling.
//!
//! ```no_run
//! # fn main() -> tenure_core::Result<()> {
//! let store = tenure_file::FileStore::open("/var/lib/reports/locks")?;
//! # drop(store);
//! # Ok(())
//! # }
//! ```
//!
//! The directory holds 64 *books*, each a log of what happened to the lines of the keys that hash
//! into it; a *session* for every [`FileStore`], which is the file that its process keeps locked;
//! and the FIFOs by which one session wakes another. What it does not promise
//! is in the crate's README.

mod checksum;
mod engine;
mod facts;
mod log;
mod open;
mod os;
mod sessions;
mod settings;
mod sync;
mod trouble;
mod url;
mod verbs;
mod visits;
mod waking;

pub use open::FileStore;
pub use settings::Settings;
pub use url::DESCRIPTION;

/// Opens the store that a URL names: `file:PATH`, with `?network=allow` for [`Settings::allow_network`].
///
/// The path is percent-encoded; `file:locks` is relative, `file:/locks` and `file:///locks` are not.
pub fn connect(url: &str) -> tenure_core::Result<FileStore> {
    let (path, settings) = url::parse(url)?;
    FileStore::open_with(path, settings)
}

/// The same for a store that is only looked at: `None` if there is none, and none is made.
pub fn connect_existing(url: &str) -> tenure_core::Result<Option<FileStore>> {
    let (path, settings) = url::parse(url)?;
    FileStore::open_existing(path, settings)
}
