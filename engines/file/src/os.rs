//! The operating system, in one room: nothing outside of it knows which one it is.
//!
//! What every system has stands here. What only Linux has is in `linux`, and what stands
//! for it elsewhere in `others`; where there are no Unix files, there is no directory that could be a store.

pub(crate) mod boot;
pub(crate) mod deaths;
#[cfg(unix)]
pub(crate) mod dir;
pub(crate) mod flock;

#[cfg(not(unix))]
#[path = "os/no_dir.rs"]
pub(crate) mod dir;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod others;

#[cfg(any(target_os = "linux", target_os = "android"))]
use linux as system;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use others as system;

pub(crate) use system::{Sight, file_system, holder_of};

/// A set of books: there are no more than 64.
pub(crate) type Books = u64;

/// Shows which books have changed.
pub(crate) type Show = Box<dyn Fn(Books) + Send>;

/// What a listener for the end of processes hears.
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "not every system tells all of it")]
enum Noise {
    /// Somebody closed the file with this mark.
    Closed(i32),
    /// No more will be heard of the file with this mark.
    Over(i32),
    /// Something was missed.
    Missed,
    /// Nothing more will be heard.
    Deaf,
}
