//! Engines made of engines.

mod any;
mod around;
mod hosted;
mod quorum;
mod retry;
mod traced;

pub use any::AnyEngine;
pub use around::{Around, Question};
pub use hosted::Hosted;
pub use quorum::{Answered, Board, Quorum};
pub use retry::Retry;
pub use traced::Traced;
