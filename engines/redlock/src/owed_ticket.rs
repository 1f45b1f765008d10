//! A ticket in one store, from before it is sent until it is removed.

use std::sync::Arc;

use tenure_core::sync::Mutex;
use tenure_core::toolbox::JoinState;
use tenure_core::{Engine as _, LeaveMode, LeaveOutcome, Place, Result, Ticket, WaitMode};

use crate::stores::QuorumNode;

/// One ticket in one store, from before it is sent until it is removed.
///
/// Its owner and each request in flight have a clone. When the last clone is dropped and the ticket
/// may still be there, the store's releaser removes it.
pub(crate) struct OwedTicket {
    pub(crate) node: Arc<QuorumNode>,
    pub(crate) ticket: Ticket,
    /// Whether the store may have it; `None`: it does not.
    joined: Mutex<Option<JoinState>>,
}

/// One attempt in every store, in order. Dropping it removes the attempt from all of them.
pub(crate) type QuorumAttempt = Arc<[Arc<OwedTicket>]>;

impl OwedTicket {
    /// A ticket that was not sent yet (`None`), or that was found in the store.
    pub(crate) fn new(
        node: &Arc<QuorumNode>,
        ticket: Ticket,
        joined: Option<JoinState>,
    ) -> Arc<Self> {
        Arc::new(Self { node: node.clone(), ticket, joined: Mutex::new(joined) })
    }

    pub(crate) async fn join(self: Arc<Self>, mode: WaitMode) -> Result<Option<Place>> {
        *self.joined.lock() = Some(JoinState::Joining);
        let answer = self.node.engine.join(&self.ticket, mode).await;
        let mut joined = self.joined.lock();
        match &answer {
            // A ticket that has left stays out: a join does not bring it back.
            _ if joined.is_none() => {}
            Ok(Some(_)) => *joined = Some(JoinState::InLine),
            Err(error) if error.is_retryable() => {}
            Ok(None) | Err(_) => *joined = None,
        }
        drop(joined);
        answer
    }

    pub(crate) async fn leave(self: Arc<Self>) -> Result<LeaveOutcome> {
        // A join in flight may still happen after this.
        let joined = *self.joined.lock();
        let left = self.node.engine.leave(&self.ticket, LeaveMode::Now).await;
        if joined.is_none_or(|joined| joined.is_settled_by(&left)) {
            self.is_out();
        }
        left
    }

    /// The store does not have the ticket.
    pub(crate) fn is_out(&self) {
        *self.joined.lock() = None;
    }
}

impl Drop for OwedTicket {
    fn drop(&mut self) {
        if let Some(joined) = *self.joined.lock() {
            self.node.releaser.release(self.ticket.clone(), joined);
        }
    }
}
