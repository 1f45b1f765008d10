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
//! and the FIFOs by which one session wakes another. What it does not promise is in the crate's
//! README.
//!
//! # From a release to the next waiter
//!
//! 1. `verbs/line.rs`: `leave` is what that verb of `engine.rs` does inside of a visit: it takes the
//!    ticket out of its row, and records that.
//! 2. `log/row.rs`: a row is a [`tenure_core::Line`] whose tickets belong to sessions, and notes who has
//!    to be told.
//! 3. `core/src/line.rs`: `serve` decides who is next.
//!
//! Around it, `visits/store.rs` locks the book, reads what others wrote, writes the record with one call,
//! unlocks, and tells the one who is served: `tell` in `waking/fifo.rs` writes "served, number 46".
//!
//! # The rooms
//!
//! Each imports only from those that stand above it here.
//!
//! | room | what |
//! |---|---|
//! | `os` | the operating system: directories, locks, who died, who looks on; nothing else knows which system it is |
//! | `log` | a book as a file: header, frames, records, the state they come to, and writing it anew |
//! | `sessions` | this engine's locked file, and how to see that another's is dead |
//! | `waking` | who waits in this process, and the FIFOs between processes |
//! | `visits` | getting into a book and out again, and a store made of that |
//! | `verbs` | what each verb does inside of a visit |
//! | `engine`, `store`, `facts` | the nine verbs, opening a store, what it promises |
//! | `description`, `url`, `settings` | what the engine says of itself, how its URLs are read, and what they mean |

mod checksum;
mod description;
mod engine;
mod facts;
mod log;
mod os;
mod sessions;
mod settings;
mod store;
mod sync;
mod trouble;
mod url;
mod verbs;
mod visits;
mod waking;

pub use description::DESCRIPTION;
pub use settings::Settings;
pub use store::FileStore;

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
