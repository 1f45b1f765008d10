//! What is owed to a store: a ticket that was sent there has to be taken out again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::node::Node;
use crate::background::releaser::JoinState;
use crate::{Engine as _, LeaveMode, LeaveOutcome, Place, Result, Ticket, WaitMode};

/// One ticket in one store, from before it is sent there until it is out again.
///
/// Its owner has a clone, and so has every verb that is on its way for it. When the last of them is
/// gone, however that comes about, and the ticket may still be there, the store's sweeper takes it
/// out.
pub(super) struct PendingTicket {
    pub(super) node: Arc<Node>,
    pub(super) ticket: Ticket,
    /// What the store may have of it; `None`: nothing.
    trace: Mutex<Option<JoinState>>,
}

/// What every store may have of one try, in their order. Dropping it takes the try out of all of
/// them.
pub(super) type Attempt = Arc<[Arc<PendingTicket>]>;

impl PendingTicket {
    /// Nothing is owed before the ticket is sent.
    pub(super) fn new(node: &Arc<Node>, ticket: Ticket) -> Arc<Self> {
        Arc::new(Self { node: node.clone(), ticket, trace: Mutex::new(None) })
    }

    /// What was found in a store, and is to leave it.
    pub(super) fn found(node: &Arc<Node>, ticket: Ticket) -> Arc<Self> {
        Arc::new(Self { node: node.clone(), ticket, trace: Mutex::new(Some(JoinState::InLine)) })
    }

    /// Sends the ticket.
    pub(super) async fn join(self: Arc<Self>, patience: WaitMode) -> Result<Option<Place>> {
        *self.trace() = Some(JoinState::Joining);
        let joined = self.node.engine.join(&self.ticket, patience).await;
        self.learn(&joined);
        joined
    }

    /// Takes it out.
    pub(super) async fn leave(self: Arc<Self>) -> Result<LeaveOutcome> {
        // A join that is on its way now may be carried out after this, whatever is known by then.
        let trace = *self.trace();
        let left = self.node.engine.leave(&self.ticket, LeaveMode::Now).await;
        if trace.is_none_or(|trace| trace.is_settled_by(&left)) {
            self.is_out();
        }
        left
    }

    /// The store says that it does not have the ticket.
    pub(super) fn is_out(&self) {
        *self.trace() = None;
    }

    fn learn(&self, joined: &Result<Option<Place>>) {
        let mut trace = self.trace();
        match joined {
            // What has left in the meantime stays out: a join does not bring it back.
            _ if trace.is_none() => {}
            Ok(Some(_)) => *trace = Some(JoinState::InLine),
            Err(error) if error.is_retryable() => {}
            Ok(None) | Err(_) => *trace = None,
        }
    }

    fn trace(&self) -> MutexGuard<'_, Option<JoinState>> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingTicket {
    fn drop(&mut self) {
        if let Some(trace) = *self.trace() {
            self.node.sweeper.give_back(self.ticket.clone(), trace, None, None);
        }
    }
}
