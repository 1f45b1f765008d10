//! A turn: a place in the line of those who wait, which says when to try.

use std::sync::Arc;

use super::node::Node;
use super::owed::PendingTicket;
use crate::{Place, Ticket, TicketState, Time};

/// A place in the line of those who wait. Dropping it lets the next one have its turn.
#[derive(Clone)]
pub(super) struct WaitSlot {
    /// Every place has an id of its own: what takes out an old one must not take out the next.
    pub(super) owed: Arc<PendingTicket>,
    /// Where it stood when the store was asked last.
    pub(super) place: Place,
    /// When the last sign of life was sent.
    pub(super) signed: Time,
}

/// What became of a sign of life.
pub(super) enum Sign {
    Heard(Place),
    /// The store has lost the place.
    Lost,
    /// Somebody took the ticket out.
    Broken,
    /// The store does not answer, or refuses.
    Silence,
}

impl WaitSlot {
    /// Whether nobody who waits is ahead.
    pub(super) fn has_come(&self) -> bool {
        self.place.state == TicketState::Holding
    }

    pub(super) fn ticket(&self, ticket: &Ticket) -> Ticket {
        Ticket { id: self.owed.ticket.id, floor: 0, ..ticket.clone() }
    }

    /// Whom to ask about this place, and how it is called there.
    pub(super) fn question(self, ticket: &Ticket) -> (Arc<Node>, Ticket) {
        (self.owed.node.clone(), self.ticket(ticket))
    }
}
