//! Engines made of engines.

mod any;
mod around;
mod hosted;
mod monitor;
mod quorum;
mod retry;

pub use any::AnyEngine;
pub use around::{Layer, Operation};
pub use hosted::OnRuntime;
pub(crate) use monitor::Monitor;
pub use quorum::{NodeHealth, QuorumHealth, Quorum};
pub use retry::Retry;
