//! Locks between the processes of one machine: a directory instead of a server.
//!
//! The tickets of a line live as long as the kernel keeps their process's file locked. When a
//! process dies in any way, its tickets are out of every line at once, and the next waiters are
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
//! The directory holds 64 *books*, each a log of the lines of the keys that hash into it. It has a
//! *session* for every [`FileStore`], which is the file that its process keeps locked. It also has
//! the FIFOs by which one session wakes another. Limits are in the crate's README.
//!
//! # From a release to the next waiter
//!
//! A *visit* locks a book, carries out one verb on it, and unlocks it.
//!
//! 1. `verbs/line.rs`: `leave` is the part of the verb that runs in a visit. It removes the ticket
//!    from its row, and records that.
//! 2. `log/row.rs`: a row is a [`tenure_core::Line`] whose tickets belong to sessions, with notices
//!    for these.
//! 3. `core/src/line.rs`: `serve` decides which ticket is next.
//!
//! Around these, `visits/store.rs` locks the book, reads the records of other processes, writes the
//! record with one call, and unlocks. Then `tell` in `waking/fifo.rs` sends "served, number 46" to
//! the session of the next ticket.
//!
//! # Modules
//!
//! Each imports only from those above it here.
//!
//! | module | contents |
//! |---|---|
//! | `checksum`, `trouble` | checksums, error messages |
//! | `os` | the operating system: directories, locks, deaths, onlookers |
//! | `log` | a book as a file: header, frames, records, their state, and its rewrite |
//! | `sessions` | this engine's locked file, and the check whether another's is dead |
//! | `waking` | the waiters of this process, and the FIFOs between processes |
//! | `visits` | locking and unlocking a book, damaged books, and the store as its books |
//! | `verbs` | the part of each verb that runs in a visit |
//! | `engine`, `store`, `facts` | the ten verbs, opening a store, its guarantees |
//! | `description`, `url`, `settings` | the engine's description, its URLs and its options |

#[cfg(not(unix))]
compile_error!("a file store needs Unix: leave the feature `file` out, and use a server");

mod checksum;
mod description;
mod engine;
mod facts;
mod log;
mod os;
mod sessions;
mod settings;
mod store;
mod trouble;
mod url;
mod verbs;
mod visits;
mod waking;

pub use description::DESCRIPTION;
pub use settings::Settings;
pub use store::FileStore;

/// Opens the store that a URL names: `file:PATH`, with `?network=allow` for
/// [`Settings::allow_network`].
///
/// The path is percent-encoded; `file:locks` is relative, `file:/locks` and `file:///locks` are
/// not.
///
/// # Errors
///
/// `Invalid` for a URL that is wrong, and `Rejected` if the directory cannot be a store.
pub fn connect(url: &str) -> tenure_core::Result<FileStore> {
    let (path, settings) = url::parse(url)?;
    FileStore::open_with(path, settings)
}

/// Opens a store only if there is one, for an onlooker. Makes nothing.
///
/// # Errors
///
/// As [`connect()`].
pub fn connect_existing(url: &str) -> tenure_core::Result<Option<FileStore>> {
    let (path, settings) = url::parse(url)?;
    FileStore::open_existing(path, settings)
}
