//! A wish: what a caller asks for a ticket.

use std::sync::Arc;

use tenure_core::Ticket;

/// A verb for a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Join {
        /// It would not wait.
        hurry: bool,
    },
    Renew,
    Leave {
        /// The ticket is asked to leave, and keeps its place until its owner has stopped.
        soon: bool,
    },
    /// Where the ticket stands. This is no sign of life.
    Look,
}

/// What a ticket that is served at once reads of what it locks, in the same step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reads {
    #[default]
    Nothing,
    Everything,
    /// These fields.
    Fields(Arc<[String]>),
}

impl Reads {
    /// What satisfies both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Nothing, one) | (one, Self::Nothing) => one.clone(),
            (Self::Fields(some), Self::Fields(more)) => {
                let new = more.iter().filter(|field| !some.contains(field));
                Self::Fields(some.iter().chain(new).cloned().collect())
            }
            _ => Self::Everything,
        }
    }
}

/// One verb for one ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) ticket: Ticket,
    pub(crate) verb: Verb,
    pub(crate) reads: Reads,
}

impl Wish {
    /// A wish that reads nothing.
    pub(crate) fn new(ticket: Ticket, verb: Verb) -> Self {
        Self { ticket, verb, reads: Reads::Nothing }
    }
}
