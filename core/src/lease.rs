//! The lease of one ticket: whether its owner holds the lock, and until when.
//!
//! The [clock] is read before each request. The [deadline] counts from that reading. [`state`] is a
//! pure state machine: answers and times are arguments. [`shared`] puts it behind a mutex for the
//! waiter, the guard and the renewer. [`telemetry`] counts and logs the changes, with the metrics
//! of [`figures`].

pub(crate) mod clock;
pub(crate) mod deadline;
pub(crate) mod figures;
pub(crate) mod options;
pub(crate) mod shared;
pub(crate) mod span;
pub(crate) mod state;
pub(crate) mod telemetry;
