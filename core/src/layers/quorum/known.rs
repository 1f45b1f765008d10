//! The records of this client's own tickets.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use super::Quorum;
use super::owed::Attempt;
use super::turn::WaitSlot;
use crate::{Ticket, TicketId};

/// The record of one ticket.
#[derive(Clone)]
pub(super) struct TicketRecord {
    pub(super) stage: Stage,
    pub(super) turn: Option<WaitSlot>,
}

#[derive(Clone)]
pub(super) enum Stage {
    /// No majority serves it. Number of attempts since its turn came.
    Trying(u32),
    /// A majority serves this attempt.
    Holding { number: u64, attempt: Attempt },
}

impl Quorum {
    pub(super) fn tickets(&self) -> MutexGuard<'_, HashMap<TicketId, TicketRecord>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known(&self, id: TicketId) -> Option<TicketRecord> {
        self.tickets().get(&id).cloned()
    }

    /// Forgets a ticket, and removes it from all stores.
    pub(super) fn forget(&self, ticket: &Ticket) {
        // After the lock is released, because stores may be called at once.
        let known = self.tickets().remove(&ticket.id);
        drop(known);
    }
}
