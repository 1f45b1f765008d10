//! Reading where a ticket stands, with as few requests as possible.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, join, select};
use tenure_core::{Key, LINE_TICKETS_MAX, Place, Result, TicketId, TicketState};

use crate::contract::{Front, SessionId, SessionStore, Sought};
use crate::engine::SessionEngine;
use crate::node::{LineId, Node};
use crate::own_ticket::{OwnTicket, Sighting};
use crate::parts::Parts;
use crate::position::Position;

/// Count of nodes read of a line after a ticket has left it.
pub(crate) const PAGE: usize = 128;
/// Maximum sessions of other clients whose life one read of a line asks for.
const LIVES_MAX: usize = 8;

impl<S: SessionStore> Parts<S> {
    /// Returns where this client's ticket stands; `None` if it is out. Notes what it read.
    pub(crate) async fn see(self: &Arc<Self>, mine: &OwnTicket) -> Result<Option<Sighting>> {
        let (parts, mine) = (self.clone(), mine.clone());
        self.errand(async move { mine.reads.run(parts.look_at(&mine)).await }).await
    }

    /// The same for an owner that relies on the life of its session from now on.
    pub(crate) async fn see_alive(self: &Arc<Self>, mine: &OwnTicket) -> Result<Option<Sighting>> {
        if !mine.session.is_due_soon(self.host.now()) {
            return self.see(mine).await;
        }
        let (parts, session) = (self.clone(), mine.session.clone());
        let signs = self.errand(async move {
            // The result does not wait for a slow sign of life.
            let late = parts.host.sleep(parts.answers_within / 2);
            match select(pin!(session.renew(&*parts.store, &*parts.host)), late).await {
                Either::Left((signed, _)) => signed,
                Either::Right(_) => Ok(()),
            }
        });
        let (signed, seen) = join(signs, self.see(mine)).await;
        // A ticket that is out is out, at any outcome of the sign of life.
        let Some(seen) = seen? else { return Ok(None) };
        signed.map(|()| Some(seen))
    }

    async fn look_at(&self, mine: &OwnTicket) -> Result<Option<Sighting>> {
        let seen = match self.see_little(mine).await? {
            Some(seen) => seen,
            None => self.locate(Sought::Own(&mine.name)).await?,
        };
        // The read counts only if the node has the session that is kept alive.
        Ok(seen.filter(|seen| seen.node.session == mine.session.id))
    }

    /// Reads the own node and those that keep it out, for a waiting ticket far back in a line.
    /// Returns `None` if that is not enough.
    async fn see_little(&self, mine: &OwnTicket) -> Result<Option<Option<Sighting>>> {
        let seen = mine.seen.as_ref().filter(|seen| seen.position.is_far());
        let Some(Sighting { position, .. }) = seen else { return Ok(None) };
        let own = [Sought::Own(&mine.name)].into_iter();
        let sought: Vec<_> = own.chain(position.blockers.iter().map(Sought::Seen)).collect();
        let (nodes, at) = self.store.look(&sought).await?;
        let mut nodes = nodes.into_iter();
        let Some(node) = nodes.next().flatten() else { return Ok(Some(None)) };
        let same = |(now, before): (Option<Node>, &Node)| now.is_some_and(|now| now.is_as(before));
        if !nodes.zip(&position.blockers).all(same) {
            return Ok(None);
        }
        let seen = Sighting { node, position: Position { at, ..position.clone() } };
        self.own.see(&seen, false);
        Ok(Some(Some(seen)))
    }

    /// Reads where a ticket stands, and notes it; `None` if it is out.
    pub(crate) async fn locate(&self, sought: Sought<'_>) -> Result<Option<Sighting>> {
        let located = self.store.position(sought).await?;
        Ok(located.map(|(node, position)| self.note(node, position)))
    }

    /// Notes where a ticket stands.
    pub(crate) fn note(&self, node: Node, position: Position) -> Sighting {
        let seen = Sighting { node, position };
        self.own.see(&seen, seen.position.state == TicketState::Holding && !seen.node.told);
        seen
    }
}

impl<S: SessionStore> SessionEngine<S> {
    /// Returns a whole line.
    pub(crate) async fn whole_line(&self, line: &LineId) -> Result<Front> {
        self.parts.store.front(line, LINE_TICKETS_MAX * 2).await
    }

    /// Returns the remaining life of a line's tickets, by session. Asks the store for the first few
    /// sessions that are not this client's.
    pub(crate) async fn lives(&self, front: &Front) -> Result<HashMap<SessionId, Duration>> {
        let Parts { own, store, host, .. } = &*self.parts;
        let (now, mut lives, mut others) = (host.now(), HashMap::new(), Vec::new());
        for node in &front.nodes {
            if let Some(mine) = own.get(node.name.id) {
                lives.insert(node.session, mine.session.life(now));
            } else if others.len() < LIVES_MAX && !others.contains(&node.session) {
                others.push(node.session);
            }
        }
        if !others.is_empty() {
            let told = others.iter().zip(store.lives(&others).await);
            lives.extend(told.filter_map(|(session, life)| Some((*session, life?))));
        }
        Ok(lives)
    }

    /// Looks for a ticket by key and id.
    pub(crate) async fn find(&self, key: &Key, id: TicketId) -> Result<Option<Sighting>> {
        let front = self.whole_line(&LineId::of(key)).await?;
        let node = front.nodes.iter().find(|node| node.name.id == id);
        Ok(node.map(|node| self.parts.note(node.clone(), front.position_of(node))))
    }

    /// Returns the place for the ticket's owner.
    pub(crate) fn place(&self, seen: &Sighting) -> Place {
        let now = self.parts.host.now();
        let mine = self.parts.own.get(seen.node.name.id);
        let life = mine.map(|mine| {
            let life = mine.session.reliable_life(now);
            mine.told.map_or(life, |until| life.min(now.until(until)))
        });
        Place {
            number: seen.node.number(),
            state: seen.position.state,
            ahead: seen.position.ahead,
            life,
            look: None,
            leaving: seen.node.told,
        }
    }
}
