//! A holder is the half of a lock that lives with its user: when it believes, when it stops, what it leaves behind.
//!
//! Tenure's own is one of them; any other library's can be written against these traits and put
//! through the same cases.

mod case;
mod cases;
mod own;
mod scene;

use std::sync::Arc;
use std::time::Duration;

use tenure_core::layers::AnyEngine;
use tenure_core::{BoxFuture, Result, Runtime, TicketId};

pub use case::HolderCase;
pub use cases::all_cases;
pub use own::Own;
pub use scene::Scene;

/// A library that holds locks.
pub trait Holder: Send + Sync + 'static {
    /// What it is called in a table.
    fn name(&self) -> String;

    /// One client of a store; what it does in the background, it does on `host`.
    fn connect(&self, engine: AnyEngine, host: Arc<dyn Runtime>) -> Arc<dyn Client>;
}

/// A lock on its way; `None`: the wait was in vain.
pub type Locking = BoxFuture<Result<Option<Box<dyn Claim>>>>;

/// One process's use of the library.
pub trait Client: Send + Sync {
    /// Waits for the mutex `key` for so long, and answers `None` if that was in vain. Without a
    /// `wait` it waits as long as it takes. Dropping the future gives up.
    fn lock(&self, key: &str, ttl: Duration, wait: Option<Duration>) -> Locking;
}

/// A lock that is held, or was. Dropping it gives it back in the background.
pub trait Claim: Send {
    /// What is held.
    fn key(&self) -> String;

    /// The fencing token.
    fn token(&self) -> u64;

    /// The ticket behind it.
    fn id(&self) -> TicketId;

    /// What can be asked of it while it is held.
    fn view(&self) -> Arc<dyn View>;

    /// Gives it back, and says whether it was held until now.
    fn release(self: Box<Self>) -> BoxFuture<Result<()>>;
}

/// Whether a lock is believed to be held.
pub trait View: Send + Sync {
    /// Whether the holder still believes.
    fn check(&self) -> Result<()>;

    /// Ready once the holder tells of the loss.
    fn lost(&self) -> BoxFuture<()>;
}
