//! The operating system. No code outside of this module knows which one it is.
//!
//! This file has the parts of every system. `linux` has the parts of Linux alone, and `others`
//! their replacements.

pub(crate) mod boot;
pub(crate) mod deaths;
pub(crate) mod dir;
pub(crate) mod flock;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod others;

#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as system;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use others as system;

pub(crate) use system::{Sight, file_system, owners_of};

/// The processes that have a file locked.
pub(crate) struct LockOwners {
    /// Their ids and programs.
    pub(crate) names: String,
    pub(crate) state: OwnerState,
}

/// Whether processes run. Of several, the first of these that one of them is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(dead_code, reason = "not every system has a table of locks")]
pub(crate) enum OwnerState {
    /// By a signal or a debugger.
    Stopped,
    Unknown,
    /// It runs, or waits for the processor or the disk.
    Runs,
}

/// A set of books: there are no more than 64.
pub(crate) type Books = u64;

/// Callback with the books that have changed.
pub(crate) type Show = Box<dyn Fn(Books) + Send>;

/// An event of a listener for the end of processes.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "not every system tells all of it")]
enum Noise {
    /// A process closed the file with this mark.
    Closed(i32),
    /// No more events of the file with this mark.
    Over(i32),
    /// Events were missed.
    Missed,
    /// No more events.
    Deaf,
}
