//! A place in the queue of waiters.

use std::sync::Arc;

use super::node::Node;
use super::owed::PendingTicket;
use crate::{Place, Ticket, TicketState, Time};

/// A place in the queue of waiters. Dropping it lets the next waiter try.
#[derive(Clone)]
pub(super) struct WaitSlot {
    /// Each place has its own id: a late removal of an old place must not remove the next.
    pub(super) owed: Arc<PendingTicket>,
    /// The last known place.
    pub(super) place: Place,
    /// When the last renewal was sent.
    pub(super) signed: Time,
}

/// The result of a renewal.
pub(super) enum Sign {
    Heard(Place),
    /// The store has lost the place.
    Lost,
    /// The ticket was broken.
    Broken,
    /// The store does not answer, or refuses.
    Silence,
}

impl WaitSlot {
    /// Whether it is the first waiter.
    pub(super) fn has_come(&self) -> bool {
        self.place.state == TicketState::Holding
    }

    pub(super) fn ticket(&self, ticket: &Ticket) -> Ticket {
        Ticket { id: self.owed.ticket.id, floor: 0, ..ticket.clone() }
    }

    /// The store of this place, and its ticket there.
    pub(super) fn question(self, ticket: &Ticket) -> (Arc<Node>, Ticket) {
        (self.owed.node.clone(), self.ticket(ticket))
    }
}
