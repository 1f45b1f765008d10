//! What users meet. Each primitive is a share of a line and a few sentences; a [claim] is what they
//! have in common, and a [guard] is what they give.

pub mod blocking;
mod claim;
pub(crate) mod counter;
pub(crate) mod election;
pub(crate) mod guard;
pub(crate) mod locks;
pub(crate) mod multi;
pub(crate) mod mutex;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod sequence;
pub(crate) mod watch;
