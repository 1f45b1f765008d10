//! The public API: primitives and their guards. Each primitive is a [claim] for a share of a line,
//! and returns a [guard].

pub mod blocking;
mod claim;
pub(crate) mod counter;
pub(crate) mod election;
pub(crate) mod guard;
pub(crate) mod lease_handle;
pub(crate) mod locks;
pub(crate) mod multi;
pub(crate) mod mutex;
pub(crate) mod once;
pub(crate) mod permit_numbers;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod sequence;
pub(crate) mod watch;
