//! Renewing a ticket in its line, with its note and its share.

use tenure_core::{Error, Loss, Place, Result, Share, Ticket, TicketState};

use crate::contract::{SessionStore, Sought};
use crate::engine::SessionEngine;
use crate::joining::ATTEMPTS_MAX;
use crate::node::Node;
use crate::own_ticket::{OwnTicket, Sighting};
use crate::parts::RETRY;

impl<S: SessionStore> SessionEngine<S> {
    /// Renews a ticket. Returns `None` if it is out, and forgets it then.
    pub(crate) async fn renew_in_line(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let renewed = self.renew_known(ticket).await?;
        let (own, now) = (&self.parts.own, self.parts.host.now());
        // A ticket that may still come in, or is being removed, stays known until that is done.
        if renewed.is_none() && !own.may_come_in(ticket.id, now) && !own.is_condemned(ticket.id) {
            own.forget(ticket.id);
        }
        Ok(renewed)
    }

    /// Renews a ticket without forgetting it if it is out: it may be on its way in.
    pub(crate) async fn renew_known(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let now = self.parts.host.now();
        self.parts.own.sign(ticket.id, now);
        let mine = self.parts.own.get(ticket.id);
        if mine.as_ref().is_some_and(|mine| mine.session.is_over(now)) {
            self.parts.own.forget(ticket.id);
            return Err(Error::lost(Loss::SessionGone));
        }
        if mine.as_ref().is_some_and(OwnTicket::is_condemned) {
            return Ok(None);
        }
        let mut backoff = RETRY;
        for _ in 0..ATTEMPTS_MAX {
            let seen = match &mine {
                Some(mine) => self.parts.see_alive(mine).await?,
                None => self.find(&ticket.key, ticket.id).await?,
            };
            let Some(seen) = seen else { return Ok(None) };
            if seen.node.told {
                return Ok(self.stay_told(&seen, mine.is_some()));
            }
            if let Some(seen) = self.carry(ticket, seen).await? {
                if ticket.floor > 0 {
                    self.raise(&seen.node.name, ticket).await?;
                }
                return Ok(Some(self.place(&seen)));
            }
            self.parts.pause(&mut backoff).await;
        }
        Err(self.parts.store.silence())
    }

    /// Returns the place of a ticket that was asked to leave. It has its place until the life is
    /// over that it had then.
    fn stay_told(&self, seen: &Sighting, is_own: bool) -> Option<Place> {
        let place = self.place(seen);
        (!is_own || place.life.is_some_and(|life| !life.is_zero())).then_some(place)
    }

    /// Writes the ticket's note and share if they have changed. Returns `None` if another client
    /// changed the node meanwhile.
    async fn carry(&self, ticket: &Ticket, seen: Sighting) -> Result<Option<Sighting>> {
        let node = &seen.node;
        let take = ticket.share.take().min(node.ticket.share.take());
        let share = Share::new(take, node.name.of)?;
        if node.ticket.note == ticket.note && node.ticket.share == share {
            return Ok(Some(seen));
        }
        let carried = Ticket { note: ticket.note.clone(), share, ..node.ticket.clone() };
        let body = Node::body(&carried, node.base, false);
        let Some(node) = self.parts.store.change(node, &body).await? else { return Ok(None) };
        if share == seen.node.ticket.share {
            let seen = Sighting { node, ..seen };
            self.parts.own.see(&seen, seen.position.state == TicketState::Holding);
            return Ok(Some(seen));
        }
        // A ticket that takes less may be served at once.
        self.parts.locate(Sought::Seen(&node)).await
    }
}
