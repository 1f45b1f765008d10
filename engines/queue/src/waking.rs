//! Wake-ups: a waiter watches its own node and those that keep it out, and reads again after every
//! hint.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::{ErrorKind, Result, Ticket, TicketState, Wake};

use crate::contract::{Hint, OpenWatch, SessionStore};
use crate::engine::SessionEngine;
use crate::node::Node;
use crate::own_ticket::{OwnTicket, Sighting};
use crate::parts::Parts;
use crate::position::Position;

/// A ticket behind others of its own client watches nothing for this time.
const MOMENT: Duration = Duration::from_millis(250);

impl<S: SessionStore> SessionEngine<S> {
    pub(crate) async fn wake(&self, ticket: &Ticket, standing: TicketState) -> Result<Wake> {
        let Parts { own, bells, host, .. } = &*self.parts;
        let (bell, mut watch) = (bells.subscribe(ticket.id), None::<(OpenWatch, Vec<Node>)>);
        loop {
            // Subscribe first, then read, so that no change between the two is missed.
            let mut rung = pin!(bell.notified());
            rung.as_mut().enable();
            // A renewal finds a ticket that this client does not know in its line.
            let Some(mine) = own.get(ticket.id) else { return Ok(Wake::Look) };
            if mine.is_condemned() || mine.session.is_over(host.now()) {
                return Ok(Wake::Look);
            }
            let Some(seen) = mine.seen.clone().filter(|seen| !seen.node.told) else {
                return Ok(Wake::Look);
            };
            if mine.holds && standing == TicketState::Waiting {
                return Ok(Wake::Served(seen.node.number()));
            }
            let nodes = watched(&seen);
            let open = match &mut watch {
                Some((open, of)) if same(of, &nodes) => open,
                _ if self.is_near(&seen, &mut rung).await => continue,
                _ => {
                    // Its own client may wake it before the store has answered.
                    let opening = pin!(self.watching(nodes.clone()));
                    let Either::Right((open, _)) = select(rung.as_mut(), opening).await else {
                        continue;
                    };
                    &mut watch.insert((open?, nodes)).0
                }
            };
            if open.at > seen.position.at {
                let Some(now) = self.see_now(&mine).await? else { return Ok(Wake::Look) };
                match changes(&seen, &now, standing) {
                    Some(wake) => return Ok(wake),
                    None if !same(&watched(&seen), &watched(&now)) => continue,
                    None => {}
                }
            }
            let hint = match select(rung.as_mut(), open.changed.as_mut()).await {
                Either::Left(_) => None,
                Either::Right((hint, _)) => Some(hint),
            };
            // A watch that has reported a change is used up.
            watch = watch.filter(|_| hint.is_none());
            if let Some(Hint::Released(at)) = hint
                && seen.position.is_next()
            {
                if self.believe(&mine, &seen, at) {
                    continue;
                }
            } else if hint.is_some() && own.has_leaving(&seen.position.blockers) {
                // The store pushes a release before it answers it. The answer says which ticket is
                // served, so no read is needed.
                select(rung, host.sleep(MOMENT)).await;
            }
            if let Some(wake) = self.look_again(&mine, &seen, standing).await? {
                return Ok(wake);
            }
        }
    }

    /// Watches these nodes.
    async fn watching(&self, nodes: Vec<Node>) -> Result<OpenWatch> {
        let parts = self.parts.clone();
        let opening = async move { parts.in_time(parts.store.watch(&nodes)).await };
        self.parts.outlives_caller(opening).await
    }

    /// Waits a moment for a wake-up before a watch is opened, if only tickets of this client keep
    /// the ticket out: the answer to their release serves it most quickly. Returns whether it was
    /// woken.
    async fn is_near(&self, seen: &Sighting, rung: &mut (impl Future + Unpin)) -> bool {
        let Parts { own, host, .. } = &*self.parts;
        let blockers = &seen.position.blockers;
        if blockers.is_empty() || !own.has_all(blockers) {
            return false;
        }
        matches!(select(rung, host.sleep(MOMENT)).await, Either::Left(_))
    }

    /// Notes a push that the only ticket ahead has left. The own node was there at that moment,
    /// which is as good as a read. Returns `false` if the ticket has another session by now, or its
    /// session is over.
    fn believe(&self, mine: &OwnTicket, seen: &Sighting, at: u64) -> bool {
        let Parts { own, host, .. } = &*self.parts;
        if seen.node.session != mine.session.id || mine.session.is_over(host.now()) {
            return false;
        }
        let position = Position::first(at.max(seen.position.at));
        own.see(&Sighting { node: seen.node.clone(), position }, true);
        true
    }

    /// Reads the own node again, after every other hint.
    async fn look_again(
        &self,
        mine: &OwnTicket,
        seen: &Sighting,
        standing: TicketState,
    ) -> Result<Option<Wake>> {
        let now_known = self.parts.own.get(mine.name.id);
        let served = |now: &OwnTicket| now.holds && standing == TicketState::Waiting;
        let known =
            now_known.is_some_and(|now| served(&now) || now.session.is_over(self.parts.host.now()));
        if known {
            // The next round of the loop returns the outcome.
            return Ok(None);
        }
        let Some(now) = self.see_now(mine).await? else { return Ok(Some(Wake::Look)) };
        Ok(changes(seen, &now, standing))
    }

    /// Reads the own node. Returns `None` if it is out, or if the store refuses the read because a
    /// ticket ahead is unreadable. Then the store refuses a renewal, too, and the owner should
    /// learn of it now instead of with the next heartbeat.
    async fn see_now(&self, mine: &OwnTicket) -> Result<Option<Sighting>> {
        match self.parts.in_time(self.parts.see(mine)).await {
            Err(refused) if refused.kind() == ErrorKind::Rejected => Ok(None),
            seen => seen,
        }
    }
}

/// Returns the own node and those that keep it out.
fn watched(seen: &Sighting) -> Vec<Node> {
    [&seen.node].into_iter().chain(&seen.position.blockers).cloned().collect()
}

/// Returns the wake-up, if the ticket's state has changed.
fn changes(before: &Sighting, now: &Sighting, standing: TicketState) -> Option<Wake> {
    if now.node.told || now.node.created != before.node.created {
        return Some(Wake::Look);
    }
    match (standing, now.position.state) {
        (TicketState::Waiting, TicketState::Holding) => Some(Wake::Served(now.node.number())),
        (TicketState::Holding, TicketState::Waiting) => Some(Wake::Look),
        _ => None,
    }
}

/// Returns whether these are the same nodes, unchanged.
fn same(some: &[Node], others: &[Node]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| one.is_as(other))
}
