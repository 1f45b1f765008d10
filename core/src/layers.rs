//! Engines that wrap other engines.

mod any;
mod layer;
mod monitor;
mod on_runtime;
mod quorum;
mod retry;

pub use any::AnyEngine;
pub use layer::{Layer, Operation};
pub(crate) use monitor::Monitor;
pub use on_runtime::OnRuntime;
pub use quorum::{NodeHealth, Quorum, QuorumHealth};
pub use retry::Retry;
