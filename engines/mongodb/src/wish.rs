//! A wish: what a caller asks for a ticket.

use tenure_core::Ticket;

/// What is asked for a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Join {
        /// It would not wait.
        hurry: bool,
    },
    Renew,
    Leave {
        /// It is told to leave, and keeps its place until its owner has stopped.
        soon: bool,
    },
    /// Where the ticket stands. This is no sign of life.
    Look,
}

/// One verb for one ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) ticket: Ticket,
    pub(crate) verb: Verb,
}
