//! What this client knows of its own tickets.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use super::Quorum;
use super::owed::Attempt;
use super::turn::WaitSlot;
use crate::{Ticket, TicketId};

/// What this client knows of one of its tickets.
#[derive(Clone)]
pub(super) struct TicketRecord {
    pub(super) stage: Stage,
    pub(super) turn: Option<WaitSlot>,
}

#[derive(Clone)]
pub(super) enum Stage {
    /// No store serves it. So often it has tried since its turn came.
    Trying(u32),
    /// A majority serves this attempt of it.
    Holding { number: u64, attempt: Attempt },
}

impl Quorum {
    pub(super) fn tickets(&self) -> MutexGuard<'_, HashMap<TicketId, TicketRecord>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self, id: TicketId) -> Option<TicketRecord> {
        self.tickets().get(&id).cloned()
    }

    /// The ticket is nothing to this client any more. What the stores have of it is given back.
    pub(super) fn forget(&self, ticket: &Ticket) {
        // Stores may be asked at once, which must find the tickets free.
        let known = self.tickets().remove(&ticket.id);
        drop(known);
    }
}
