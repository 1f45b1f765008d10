//! Parts for authors of engines. They are not part of the stable surface: any release may change
//! them.

pub(crate) mod expiring_map;
pub mod rfc3339;
pub(crate) mod sampler;
mod snapshot;

pub use crate::background::backoff::jitter;
pub use crate::background::releaser::{JoinState, Releaser};
pub use crate::lease::span::shown;
pub use sampler::Sampler;
