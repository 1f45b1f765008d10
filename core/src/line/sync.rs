//! What the memory engine and its bell are synchronised with: the standard library's, and in the test
//! `interleavings` ones that try every order of steps.

pub(crate) use std::sync::atomic::AtomicUsize;
pub(crate) use std::sync::{Mutex, MutexGuard};
