//! A request to a store: the method, and the ticket.

use tenure_core::{Ticket, TicketId};

/// A method of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the verb of the contract with its name")]
pub enum Verb {
    Join,
    Renew,
    Leave,
    Watch,
    Events,
    Line,
    Keys,
    Add,
    Swap,
}

/// A request to a store.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The method.
    pub verb: Verb,
    /// The ticket, if the request has one.
    pub ticket: Option<&'a Ticket>,
}

impl Verb {
    /// Whether the request only waits for an event, and changes nothing.
    pub fn only_waits(self) -> bool {
        matches!(self, Self::Watch | Self::Events)
    }

    pub(super) fn of(self, ticket: &Ticket) -> Asked<'_> {
        Asked { verb: self, ticket: Some(ticket) }
    }

    pub(super) fn alone(self) -> Asked<'static> {
        Asked { verb: self, ticket: None }
    }
}

impl Asked<'_> {
    /// The id of the ticket, if the request has one.
    pub fn id(&self) -> Option<TicketId> {
        self.ticket.map(|ticket| ticket.id)
    }
}

/// Whether an event with this probability per thousand happens.
pub(super) fn happens(random: u64, per_mille: u32) -> bool {
    random % 1000 < u64::from(per_mille)
}
