//! A turn: those who wait for a lock stand in a line of their own, so that one of them tries at a time, and
//! is told when to.
//!
//! That line is kept by one store, and decides nothing: who holds is what a majority says, and whoever stands
//! in no line, because no store has one, tries now and then. It spares the stores the tries of all but the
//! first, and since a holder who came through it stays in it, its leaving brings the next one a push.

use futures_util::future::{Either, select};

use super::book::Known;
use super::poll::late;
use super::{Quorum, trying};
use crate::sweep::Trace;
use crate::{
    Engine as _, Kind, Leave, Patience, Place, Result, Standing, Ticket, TicketId, Time, Wake,
};

/// A place in the line of those who wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// By what id. Every place has one of its own: what takes out an old one must not take out the next.
    id: TicketId,
    /// In which store.
    node: usize,
    trace: Trace,
    /// When the last sign of life was sent.
    signed: Time,
    /// Whether nobody who waits is ahead.
    pub(super) has_come: bool,
}

impl Quorum {
    /// Where it is no ticket's turn, one that waits stands in line, and tries when its turn has come.
    pub(super) async fn wait_or_try(&self, ticket: &Ticket, known: Known) -> Result<Place> {
        let turn = match known.turn {
            Some(turn) if turn.has_come && !self.is_stale(ticket, turn) => None,
            Some(turn) => match self.keep_turn(ticket, turn).await {
                None => self.stand_in_line(ticket).await?,
                place => place,
            },
            None => self.stand_in_line(ticket).await?,
        };
        if turn.is_some_and(|place| place.standing == Standing::Waiting) {
            return Ok(trying(turn));
        }
        Ok(self.try_join(ticket).await?.unwrap_or(trying(None)))
    }

    /// Stands in line, in the first store that answers. `None`: in none of them.
    pub(super) async fn stand_in_line(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let first = usize::from(ticket.key.hash_in("turn")[0]);
        for step in 0..self.turns.len() {
            let turn = Turn {
                id: self.next_attempt(ticket.id),
                node: (first + step) % self.turns.len(),
                trace: Trace::Joining,
                signed: self.host.now(),
                has_come: false,
            };
            // It is in the book before it is sent anywhere, so that nothing can be left behind.
            if !self.take_turn(ticket, Some(turn)) {
                return Ok(None);
            }
            let asked = turn.ticket(ticket);
            let joined = self.turns[turn.node].engine.join(&asked, Patience::Wait);
            match self.in_time(joined).await {
                Ok(Some(place)) => {
                    self.learn_turn(ticket.id, turn, place.standing);
                    return Ok(Some(place));
                }
                // It is wrong in every store.
                Err(error) if error.kind() == Kind::Invalid => return Err(error),
                Ok(None) | Err(_) => {}
            }
        }
        self.take_turn(ticket, None);
        Ok(None)
    }

    /// A sign of life in that line. `None`: the ticket stands there no more.
    pub(super) async fn keep_turn(&self, ticket: &Ticket, turn: Turn) -> Option<Place> {
        let turn = Turn { signed: self.host.now(), ..turn };
        let asked = turn.ticket(ticket);
        let renewed = self.in_time(self.turns[turn.node].engine.renew(&asked)).await;
        if let Ok(Some(place)) = renewed {
            self.learn_turn(ticket.id, turn, place.standing);
            return Some(place);
        }
        None
    }

    /// Waits until the turn may have come.
    pub(super) async fn await_turn(&self, ticket: &Ticket, turn: Turn) {
        let asked = turn.ticket(ticket);
        match self.turns[turn.node].engine.watch(&asked, Standing::Waiting).await {
            Ok(Wake::Served(_)) => self.learn_turn(ticket.id, turn, Standing::Holding),
            Ok(Wake::Look) => {}
            Err(_) => self.host.sleep(self.patience).await,
        }
    }

    /// Whether it is time to give another sign of life.
    pub(super) fn is_stale(&self, ticket: &Ticket, turn: Turn) -> bool {
        self.host.now().has_reached(turn.signed.plus(ticket.ttl / 4))
    }

    /// Lets the next one have its turn.
    pub(super) fn pass_turn(&self, ticket: &Ticket, turn: Turn) {
        let (node, asked) = (self.turns[turn.node].clone(), turn.ticket(ticket));
        self.rest.send(Box::pin(async move {
            let left = node.engine.leave(&asked, Leave::Now).await;
            if !turn.trace.is_settled_by(&left) {
                node.sweeper.give_back(asked, turn.trace);
            }
        }));
    }

    /// Puts another place, or none, into the book, and gives back the one that was there. `false`: the
    /// ticket itself is gone.
    fn take_turn(&self, ticket: &Ticket, turn: Option<Turn>) -> bool {
        let before = match self.tickets().get_mut(&ticket.id) {
            Some(known) => std::mem::replace(&mut known.turn, turn),
            None => return false,
        };
        if let Some(before) = before {
            self.pass_turn(ticket, before);
        }
        true
    }

    /// A store answered for this place, if it is still the ticket's.
    fn learn_turn(&self, id: TicketId, turn: Turn, standing: Standing) {
        if let Some(known) = self.tickets().get_mut(&id)
            && let Some(current) = known.turn.as_mut().filter(|current| current.id == turn.id)
        {
            current.trace = Trace::InLine;
            current.signed = current.signed.max(turn.signed);
            current.has_come |= standing == Standing::Holding;
        }
    }

    async fn in_time<T>(&self, verb: impl Future<Output = Result<T>>) -> Result<T> {
        match select(std::pin::pin!(verb), self.host.sleep(self.patience)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => Err(late(self.patience)),
        }
    }
}

impl Turn {
    fn ticket(self, ticket: &Ticket) -> Ticket {
        Ticket { id: self.id, floor: 0, ..ticket.clone() }
    }
}
