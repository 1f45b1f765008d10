//! Parts for authors of engines. They are not part of the stable surface: any release may change
//! them.

pub(crate) mod expiring_map;
mod listing;
pub mod rfc3339;
pub(crate) mod sampler;
mod snapshot;

pub use crate::background::backoff::jitter;
pub use crate::background::releaser::{JoinState, Releaser};
pub use crate::lease::span::shown;
pub use listing::{incomplete, known_keys};
pub use sampler::Sampler;

use crate::layers::AnyEngine;
use crate::{Locks, Result};

/// Returns the engine of these locks, for a program that keeps tickets without guards: no task
/// renews them, and they stay when the program ends.
///
/// # Errors
///
/// [`Invalid`](crate::ErrorKind::Invalid): the locks were closed.
pub fn engine_of(locks: &Locks) -> Result<AnyEngine> {
    locks.client.open_engine().cloned()
}
