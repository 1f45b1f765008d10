//! A wish: the request of a caller for one ticket.

use std::sync::Arc;

use tenure_core::Ticket;

/// A verb for a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Join {
        /// The ticket is not to wait.
        hurry: bool,
    },
    Renew,
    Leave {
        /// The ticket is asked to leave, and keeps its place until its owner has stopped.
        soon: bool,
    },
    /// Returns where the ticket stands, without a renewal.
    Look,
}

/// The fields that a ticket which is served at once reads of the locked document, in the same step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// No document is read.
    #[default]
    Nothing,
    /// All fields.
    Everything,
    /// These fields.
    Fields(Arc<[String]>),
}

impl Reads {
    /// Returns the fields that satisfy both.
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
pub(crate) struct Request {
    pub(crate) ticket: Ticket,
    pub(crate) verb: Verb,
    pub(crate) reads: Reads,
}

impl Request {
    /// A wish that reads nothing.
    pub(crate) fn new(ticket: Ticket, verb: Verb) -> Self {
        Self { ticket, verb, reads: Reads::Nothing }
    }
}
