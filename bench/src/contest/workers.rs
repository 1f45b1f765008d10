//! The runtime on which all are measured.

use tokio::runtime::{Builder, Runtime};

/// Two threads; what is measured runs in tasks of its own.
pub(crate) fn workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
