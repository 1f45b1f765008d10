//! Leaving a line: a release by the owner, and a break by another client.

use tenure_core::{LeaveOutcome, Result, Ticket, TicketState, served};

use crate::contract::{Front, Remove, Removed, SessionId, SessionStore, Why};
use crate::engine::SessionEngine;
use crate::node::{Node, TicketName};
use crate::own_ticket::OwnTicket;
use crate::parts::{Parts, RETRY};
use crate::seeing::PAGE;

/// Maximum nodes that a store compares in one step. etcd takes 128 operations by default.
const PROVIDED_MAX: usize = 100;

/// Count of nodes that the release of a mutex or a writer reads: a store may have to send and read
/// each.
const SERVED_FEW: usize = 8;

impl<S: SessionStore> SessionEngine<S> {
    /// Removes a ticket at once.
    pub(crate) async fn leave_now(&self, ticket: &Ticket) -> Result<LeaveOutcome> {
        let Parts { own, bells, host, .. } = &*self.parts;
        let was_asked = own.give_up(ticket.id);
        own.leaves(ticket.id);
        let mine = own.get(ticket.id);
        let left = match &mine {
            Some(OwnTicket { seen: Some(seen), holds, .. }) => {
                self.take_out(&seen.node, *holds).await
            }
            Some(OwnTicket { name, session, .. }) => {
                self.take_out_unanswered(name, session.id).await
            }
            None if was_asked => Ok(LeaveOutcome::Waiting),
            None if own.has_ended(ticket.id, host.now()) => return Ok(LeaveOutcome::Absent),
            None => self.take_out_stranger(ticket).await,
        }?;
        own.end(ticket.id, host.now(), ticket.ttl);
        bells.notify(ticket.id);
        Ok(left)
    }

    /// Asks a holder to leave; removes a waiter. A waiter behind more holders than one step
    /// compares may be served before it is removed, and is asked like a holder.
    pub(crate) async fn leave_soon(&self, ticket: &Ticket) -> Result<LeaveOutcome> {
        let mut backoff = RETRY;
        loop {
            let Some(seen) = self.find(&ticket.key, ticket.id).await? else {
                return Ok(LeaveOutcome::Absent);
            };
            let node = &seen.node;
            let provided = &seen.position.blockers;
            if seen.position.state == TicketState::Waiting && provided.len() <= PROVIDED_MAX {
                let (why, front) = (Why::Broken, Some(PAGE));
                let remove = Remove { provided, why, front, ..Remove::just(node) };
                let removed = self.parts.store.remove(&remove).await?;
                if removed.gone {
                    self.ring_served(removed.front.as_ref());
                    self.parts.bells.notify(ticket.id);
                    return Ok(LeaveOutcome::Waiting);
                }
            } else if node.told {
                return Ok(LeaveOutcome::Requested);
            } else if self.parts.ask_to_leave(node).await?.is_some() {
                self.parts.bells.notify(ticket.id);
                return Ok(LeaveOutcome::Requested);
            }
            self.parts.pause(&mut backoff).await;
        }
    }

    /// Removes a node with one request. Asks for the rest of the line only if that is of use.
    async fn take_out(&self, node: &Node, holds: bool) -> Result<LeaveOutcome> {
        let is_alone = self.parts.own.in_line(&node.name.line) < 2;
        // Behind a mutex or a writer, few tickets are served at once, except readers.
        let most = if node.takes_all() { SERVED_FEW } else { PAGE };
        let front = (!holds || !is_alone).then_some(most);
        let remove = Remove { front, ..Remove::just(node) };
        let Removed { gone, front } = self.parts.store.remove(&remove).await?;
        if !gone {
            return Ok(LeaveOutcome::Absent);
        }
        if front.is_none() {
            self.wake_latecomers(node);
        }
        self.ring_served(front.as_ref());
        let waited = front.is_some_and(|front| !holds && keeps_out(&front, node));
        Ok(if waited { LeaveOutcome::Waiting } else { LeaveOutcome::Holding })
    }

    /// Wakes tickets of this client that joined since the removal was sent. Its answer has no front
    /// for them, so they read the line again.
    fn wake_latecomers(&self, left: &Node) {
        let Parts { own, bells, host, .. } = &*self.parts;
        own.end(left.name.id, host.now(), left.ticket.ttl);
        for id in own.all_in(&left.name.line) {
            bells.notify(id);
        }
    }

    /// Removes a ticket whose join was not answered: if it is not in now, it is never let in. It
    /// counts as a waiter.
    async fn take_out_unanswered(
        &self,
        name: &TicketName,
        session: SessionId,
    ) -> Result<LeaveOutcome> {
        match self.parts.store.fence_out(name, session).await? {
            Some(node) => self.take_out(&node, false).await,
            None => Ok(LeaveOutcome::Waiting),
        }
    }

    async fn take_out_stranger(&self, ticket: &Ticket) -> Result<LeaveOutcome> {
        match self.find(&ticket.key, ticket.id).await? {
            Some(seen) => self.take_out(&seen.node, false).await,
            None => Ok(LeaveOutcome::Absent),
        }
    }

    /// Wakes this client's tickets that are served now. The answer to a release has them, so they
    /// need no push.
    fn ring_served(&self, front: Option<&Front>) {
        let Parts { own, bells, .. } = &*self.parts;
        let Some(front) = front else { return };
        for node in front.served() {
            if own.serve(node) {
                bells.notify(node.name.id);
            }
        }
        // If all that were read are served, others may be, too: they read the line themselves.
        let last = front.nodes.last().filter(|_| front.nodes.len() < front.total);
        if let Some(last) = last
            && front.served().count() == front.nodes.len()
        {
            own.all_in(&last.name.line).into_iter().for_each(|id| bells.notify(id));
        }
    }
}

/// Returns whether the tickets ahead of a node kept it out.
fn keeps_out(front: &Front, node: &Node) -> bool {
    let ahead = front.nodes.iter().filter(|other| other.created < node.created);
    !served(ahead.map(Node::take).sum(), node.ticket.share)
}
