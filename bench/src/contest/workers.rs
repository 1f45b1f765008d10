//! The runtime of the measurements.

use tokio::runtime::{Builder, Runtime};

/// A runtime with two threads. The measured work runs in spawned tasks.
pub(crate) fn workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
