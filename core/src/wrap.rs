//! Engines made of engines.

mod any;
mod around;
mod hosted;
mod monitor;
mod quorum;
mod retry;

pub use any::AnyEngine;
pub use around::{Around, Question};
pub use hosted::Hosted;
pub(crate) use monitor::Monitor;
pub use quorum::{Answered, Board, Quorum};
pub use retry::Retry;
