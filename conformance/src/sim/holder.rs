//! The traits of a holder: the half of a lock that lives with its user, and decides when it is lost
//! and what it leaves behind.
//!
//! Tenure implements them; any other library can, to run the same cases.

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

/// A library of locks.
pub trait Holder: Send + Sync + 'static {
    /// Its name in a table.
    fn name(&self) -> String;

    /// One client of a store, whose background work runs on `host`.
    fn connect(&self, engine: AnyEngine, host: Arc<dyn Runtime>) -> Arc<dyn Client>;
}

/// A pending lock. `None`: the time limit passed.
pub type Locking = BoxFuture<Result<Option<Box<dyn Claim>>>>;

/// The use of the library by one process.
pub trait Client: Send + Sync {
    /// Waits for the mutex `key`, at most for `wait`; `None` if that passed. Without `wait` it has
    /// no limit. Dropping the future gives up.
    fn lock(&self, key: &str, ttl: Duration, wait: Option<Duration>) -> Locking;
}

/// A lock that is or was held. Dropping it releases it in the background.
pub trait Claim: Send {
    /// The key.
    fn key(&self) -> String;

    /// The fencing token.
    fn token(&self) -> u64;

    /// Its ticket.
    fn id(&self) -> TicketId;

    /// A view of its state.
    fn view(&self) -> Arc<dyn View>;

    /// Releases it. An error reports a lock that was lost before.
    fn release(self: Box<Self>) -> BoxFuture<Result<()>>;
}

/// A view of a lock: whether its holder believes to hold it.
pub trait View: Send + Sync {
    /// Whether the holder still believes.
    ///
    /// # Errors
    ///
    /// The lock is lost.
    fn check(&self) -> Result<()>;

    /// Ready once the holder reports the loss.
    fn lost(&self) -> BoxFuture<()>;
}
