//! Engines made of engines.

mod any;
mod hosted;
mod quorum;
mod retry;
mod traced;

pub use any::AnyEngine;
pub use hosted::Hosted;
pub use quorum::{Answered, Board, Quorum};
pub use retry::Retry;
pub use traced::Traced;
