//! What an owner may believe of its ticket, and until when. Nothing here asks a store or starts a task: time
//! and answers are arguments.
//!
//! The [clock] is read before a question; the [deadline] is counted from that reading;
//! the [hold] is the state machine that answers and moments drive; [kept] is a hold that
//! the waiter, the guard and the keeper share; a [loss] is how it ends badly.

pub(crate) mod clock;
pub(crate) mod deadline;
pub(crate) mod loss;
pub(crate) mod options;
pub(crate) mod shared;
pub(crate) mod span;
pub(crate) mod state;
