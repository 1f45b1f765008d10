//! The book: what this client knows of its own tickets.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::Quorum;
use super::turn::Turn;
use crate::{Ticket, TicketId};

/// What this client knows of one of its tickets.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) stage: Stage,
    pub(super) turn: Option<Turn>,
}

#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// No store serves it. So often it has tried since its turn came.
    Trying(u32),
    /// A majority serves this attempt of it; some stores may take it in later, and must be looked
    /// after when it leaves.
    Holding { attempt: TicketId, number: u64, late: Vec<usize> },
}

impl Quorum {
    pub(super) fn tickets(&self) -> MutexGuard<'_, HashMap<TicketId, Known>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self, id: TicketId) -> Option<Known> {
        self.tickets().get(&id).cloned()
    }

    /// The ticket is nothing to this client any more.
    pub(super) fn forget(&self, ticket: &Ticket) {
        let known = self.tickets().remove(&ticket.id);
        if let Some(turn) = known.and_then(|known| known.turn) {
            self.pass_turn(ticket, turn);
        }
    }

    pub(super) fn next_attempt(&self, id: TicketId) -> TicketId {
        id.attempt(self.attempts.fetch_add(1, Ordering::Relaxed))
    }
}
