//! Tickets that were sent to a store and have to be removed again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::node::Node;
use crate::background::releaser::JoinState;
use crate::{Engine as _, LeaveMode, LeaveOutcome, Place, Result, Ticket, WaitMode};

/// One ticket in one store, from before it is sent until it is removed.
///
/// Its owner and each operation in flight have a clone. When the last clone is dropped and the
/// ticket may still be there, the store's releaser removes it.
pub(super) struct PendingTicket {
    pub(super) node: Arc<Node>,
    pub(super) ticket: Ticket,
    /// Whether the store may have it; `None`: it does not.
    trace: Mutex<Option<JoinState>>,
}

/// One attempt in every store, in order. Dropping it removes the attempt from all of them.
pub(super) type Attempt = Arc<[Arc<PendingTicket>]>;

impl PendingTicket {
    /// Nothing has to be removed before the ticket is sent.
    pub(super) fn new(node: &Arc<Node>, ticket: Ticket) -> Arc<Self> {
        Arc::new(Self { node: node.clone(), ticket, trace: Mutex::new(None) })
    }

    /// A ticket that was found in a store and has to leave.
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

    /// Removes it.
    pub(super) async fn leave(self: Arc<Self>) -> Result<LeaveOutcome> {
        // A join in flight may still happen after this.
        let trace = *self.trace();
        let left = self.node.engine.leave(&self.ticket, LeaveMode::Now).await;
        if trace.is_none_or(|trace| trace.is_settled_by(&left)) {
            self.is_out();
        }
        left
    }

    /// The store does not have the ticket.
    pub(super) fn is_out(&self) {
        *self.trace() = None;
    }

    fn learn(&self, joined: &Result<Option<Place>>) {
        let mut trace = self.trace();
        match joined {
            // A ticket that has left stays out: a join does not bring it back.
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
