//! A question on its way to a store: which verb, and for which ticket.

use tenure_core::{Ticket, TicketId};

/// What can be asked of an engine.
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
    Tally,
}

/// A question on its way to a store.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// What is asked.
    pub verb: Verb,
    /// For which ticket, where it is for one.
    pub ticket: Option<&'a Ticket>,
}

impl Verb {
    /// Whether it only waits for something to happen, and changes nothing.
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
    /// The ticket's id, where it is asked for one.
    pub fn id(&self) -> Option<TicketId> {
        self.ticket.map(|ticket| ticket.id)
    }
}

/// Whether something happens that happens so many times in a thousand.
pub(super) fn happens(random: u64, per_mille: u32) -> bool {
    random % 1000 < u64::from(per_mille)
}
