//! Engines that wrap other engines.

mod on_runtime;
mod retry;

pub use on_runtime::OnRuntime;
pub use retry::Retry;

pub use crate::background::retries::Retries;
pub use crate::contract::any::AnyEngine;
pub use crate::contract::layer::{Layer, Operation};
