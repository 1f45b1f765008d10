//! Engines made of engines.

mod any;
mod layer;
mod on_runtime;
mod monitor;
mod quorum;
mod retry;

pub use any::AnyEngine;
pub use layer::{Layer, Operation};
pub use on_runtime::OnRuntime;
pub(crate) use monitor::Monitor;
pub use quorum::{NodeHealth, QuorumHealth, Quorum};
pub use retry::Retry;
