//! The mutex and atomic of the memory engine and of its wake-ups. The test `interleavings` replaces
//! them by ones that try many orders of steps.

pub(crate) use std::sync::atomic::AtomicUsize;
pub(crate) use std::sync::{Mutex, MutexGuard};
