//! Reading where a ticket stands, with as few requests as possible.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, join, select};
use tenure_core::{Key, LINE_TICKETS_MAX, Place, Result, TicketId, TicketState};

use crate::contract::{Front, SessionId, Sought, Store};
use crate::mine::{Mine, Sighting};
use crate::node::{LineId, Node};
use crate::parts::Parts;
use crate::queue::Queue;
use crate::stand::{Stand, blockers};

/// Count of nodes read of a line. A ticket further back knows only those that keep it out.
pub(crate) const PAGE: usize = 128;
/// The same for a ticket that was near the front: no ticket comes in before it.
const NEAR_PAGE: usize = 40;
/// Maximum sessions of other clients whose life one read of a line asks for.
const LIVES_MAX: usize = 8;
/// Factor by which the next read of a line goes further.
const FURTHER: usize = 8;

impl<S: Store> Parts<S> {
    /// Returns where this client's ticket stands; `None` if it is out. Notes what it read.
    pub(crate) async fn see(self: &Arc<Self>, mine: &Mine) -> Result<Option<Sighting>> {
        let (parts, mine) = (self.clone(), mine.clone());
        self.errand(async move { mine.looks.share(parts.look_at(&mine)).await }).await
    }

    /// The same for an owner that relies on the life of its session from now on.
    pub(crate) async fn see_alive(self: &Arc<Self>, mine: &Mine) -> Result<Option<Sighting>> {
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

    async fn look_at(&self, mine: &Mine) -> Result<Option<Sighting>> {
        let seen = if let Some(seen) = self.see_little(mine).await? {
            seen
        } else {
            let is_near = mine.seen.as_ref().is_some_and(|seen| !seen.stand.far);
            let most = if mine.holds || is_near { NEAR_PAGE } else { PAGE };
            let front = self.store.front(&mine.name.line, most, Some(&mine.name)).await?;
            self.find_in(front, Sought::Own(&mine.name)).await?
        };
        // The read counts only if the node has the session that is kept alive.
        Ok(seen.filter(|seen| seen.node.session == mine.session.id))
    }

    /// Reads the own node and those that keep it out, for a waiting ticket far back in a line.
    /// Returns `None` if that is not enough.
    async fn see_little(&self, mine: &Mine) -> Result<Option<Option<Sighting>>> {
        let Some(Sighting { stand, .. }) = mine.seen.as_ref().filter(|seen| seen.stand.far) else {
            return Ok(None);
        };
        let own = [Sought::Own(&mine.name)].into_iter();
        let sought: Vec<_> = own.chain(stand.blockers.iter().map(Sought::Seen)).collect();
        let (nodes, at) = self.store.look(&sought).await?;
        let mut nodes = nodes.into_iter();
        let Some(node) = nodes.next().flatten() else { return Ok(Some(None)) };
        let same = |(now, before): (Option<Node>, &Node)| now.is_some_and(|now| now.is_as(before));
        if !nodes.zip(&stand.blockers).all(same) {
            return Ok(None);
        }
        let seen = Sighting { node, stand: stand.clone(), at };
        self.own.see(&seen, false);
        Ok(Some(Some(seen)))
    }

    /// Returns where this ticket stands, beginning with the front of its line.
    pub(crate) async fn find_in(
        &self,
        front: Front,
        sought: Sought<'_>,
    ) -> Result<Option<Sighting>> {
        if let Some(node) = front.nodes.iter().find(|node| node.name == *sought.name()) {
            let node = node.clone();
            return self.judge(front, node).await.map(Some);
        }
        if front.nodes.len() >= front.total {
            return Ok(None);
        }
        let (mut nodes, _) = self.store.look(&[sought]).await?;
        match nodes.pop().flatten() {
            Some(node) => self.judge(front, node).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns where a node stands, and reads further if needed. A ticket far back knows only those
    /// that keep it out.
    pub(crate) async fn judge(&self, mut front: Front, node: Node) -> Result<Sighting> {
        let (created, share) = (node.created, node.ticket.share);
        let mut most = PAGE;
        let mut stand = loop {
            if let Some(stand) = front.stand(created, share) {
                break stand;
            }
            most *= FURTHER;
            front = self.store.front(&node.name.line, most, Some(&node.name)).await?;
        };
        if stand.deep {
            (stand.blockers, stand.behind) = self.nearest(&node, &stand).await?;
        }
        let seen = Sighting { node, stand, at: front.at };
        self.own.see(&seen, seen.stand.standing == TicketState::Holding && !seen.node.told);
        Ok(seen)
    }

    /// Returns the nodes that keep out a ticket far back, and the number of the one right ahead.
    /// Its neighbours are enough if they keep it out.
    async fn nearest(&self, node: &Node, stand: &Stand) -> Result<(Vec<Node>, u64)> {
        let share = node.ticket.share;
        let most = if share.take() == share.of() { 1 } else { PAGE };
        let ahead = self.store.ahead(node, most).await?;
        let behind = ahead.first().map_or(0, |node| node.created);
        let near = blockers(ahead, Node::take, share);
        let taken: u64 = near.iter().map(Node::take).sum();
        let keeps_out = !tenure_core::served(taken, share);
        Ok((if keeps_out { near } else { stand.blockers.clone() }, behind))
    }
}

impl<S: Store> Queue<S> {
    /// Returns a whole line.
    pub(crate) async fn whole_line(&self, line: &LineId) -> Result<Front> {
        self.parts.store.front(line, LINE_TICKETS_MAX * 2, None).await
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
    pub(crate) async fn find(&self, key: &Key, id: TicketId) -> Result<Option<(Front, Node)>> {
        let front = self.whole_line(&LineId::of(key)).await?;
        let node = front.nodes.iter().find(|node| node.name.id == id).cloned();
        Ok(node.map(|node| (front, node)))
    }

    /// Returns the place for the ticket's owner.
    pub(crate) fn place(&self, seen: &Sighting) -> Place {
        let now = self.parts.host.now();
        let mine = self.parts.own.get(seen.node.name.id);
        let life = mine.map(|mine| {
            let life = mine.session.life(now);
            mine.told.map_or(life, |until| life.min(now.until(until)))
        });
        Place {
            number: seen.node.number(),
            state: seen.stand.standing,
            ahead: seen.stand.ahead,
            life,
            look: None,
            leaving: seen.node.told,
        }
    }
}
