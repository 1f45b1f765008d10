//! The queue of waiters of a RedLock, in one of the stores. Only the first of them tries, and a
//! release wakes the next.
//!
//! The queue is an optimisation: the majority alone decides which ticket holds. Without a queue,
//! waiters try after pauses. A holder stays in the queue, so its release wakes the next waiter by a
//! push.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};

use super::known::TicketRecord;
use super::node::Node;
use super::owed::PendingTicket;
use super::poll::{contained, late};
use super::turn::{Sign, WaitSlot};
use super::{Quorum, trying};
use crate::{Engine as _, Key, Place, Result, Ticket, TicketId, TicketState, WaitMode, Wake};

impl Quorum {
    /// Puts a waiting ticket into the queue, and tries when its turn has come.
    pub(super) async fn wait_or_try(
        &self,
        ticket: &Ticket,
        known: TicketRecord,
    ) -> Result<Option<Place>> {
        let place = match &known.turn {
            Some(turn) if turn.has_come() && !self.is_stale(ticket, turn) => Some(turn.place),
            Some(turn) => match self.keep_turn(ticket, turn).await {
                Sign::Heard(place) => Some(place),
                Sign::Lost | Sign::Silence => self.stand_in_line(ticket).await,
                Sign::Broken => {
                    self.forget(ticket);
                    return Ok(None);
                }
            },
            None => self.stand_in_line(ticket).await,
        };
        self.try_in_turn(ticket, place).await
    }

    /// Tries, unless another waiter is ahead.
    pub(super) async fn try_in_turn(
        &self,
        ticket: &Ticket,
        place: Option<Place>,
    ) -> Result<Option<Place>> {
        if place.is_some_and(|place| place.state == TicketState::Waiting) {
            return Ok(Some(trying(place)));
        }
        // The number that inspection showed while it waited must not be above its token.
        let floor = place.map_or(0, |place| place.number);
        Ok(Some(self.try_join(ticket, floor).await?.unwrap_or(trying(place))))
    }

    /// Joins the queue of the first store that answers. `None`: no store answered.
    pub(super) async fn stand_in_line(&self, ticket: &Ticket) -> Option<Place> {
        for node in self.lines_for(&ticket.key) {
            let (id, signed) = (self.next_attempt(ticket.id), self.host.now());
            let floor = self.numbers.proposal(&*self.host);
            let owed = PendingTicket::new(node, Ticket { id, floor, ..ticket.clone() });
            let joined = self.in_time(owed.clone().join(WaitMode::Wait)).await;
            if let Ok(Some(place)) = joined {
                let is_crowded = place.state == TicketState::Waiting;
                self.crowds.note(&ticket.key, is_crowded, self.host.now());
                self.take_turn(ticket.id, Some(WaitSlot { owed, place, signed }));
                return Some(place);
            }
        }
        self.take_turn(ticket.id, None);
        None
    }

    /// Whether a writer waits in the queue of this key.
    pub(super) async fn has_waiting_writer(&self, key: &Key) -> bool {
        for node in self.lines_for(key) {
            if let Ok(line) = self.in_time(node.engine.line(key)).await {
                let mut shares = line.iter().map(|(ticket, _)| ticket.share);
                return shares.any(|share| share.take() == share.of());
            }
        }
        false
    }

    /// The queue of this key, from the first store that answers.
    pub(super) fn lines_for(&self, key: &Key) -> impl Iterator<Item = &Arc<Node>> {
        let lines = &self.turns.nodes;
        let first = usize::from(key.hash_in("turn")[0]) % lines.len().max(1);
        lines.iter().cycle().skip(first).take(lines.len())
    }

    /// Renews the place in the queue.
    pub(super) async fn keep_turn(&self, ticket: &Ticket, turn: &WaitSlot) -> Sign {
        let (signed, asked) = (self.host.now(), turn.ticket(ticket));
        match self.in_time(turn.owed.node.engine.renew(&asked)).await {
            Ok(Some(place)) if !place.leaving => {
                self.change_turn(ticket.id, asked.id, |turn| {
                    (turn.place, turn.signed) = (place, turn.signed.max(signed));
                });
                Sign::Heard(place)
            }
            Ok(None) => {
                turn.owed.is_out();
                if self.was_broken(ticket.id).await { Sign::Broken } else { Sign::Lost }
            }
            Ok(Some(_)) => Sign::Broken,
            Err(_) => Sign::Silence,
        }
    }

    /// Renews the place of a holder. If the place is lost, the next waiter is woken later.
    pub(super) async fn keep_turn_of_holder(
        &self,
        ticket: &Ticket,
        turn: Option<&WaitSlot>,
    ) -> bool {
        let Some(turn) = turn else { return true };
        match self.keep_turn(ticket, turn).await {
            Sign::Heard(_) | Sign::Silence => true,
            Sign::Lost => {
                self.take_turn(ticket.id, None);
                true
            }
            Sign::Broken => false,
        }
    }

    /// Waits until the turn may have come. It does not keep the place alive.
    pub(super) async fn await_turn(&self, ticket: &Ticket, turn: WaitSlot) {
        let (node, asked) = turn.question(ticket);
        match node.engine.watch(&asked, TicketState::Waiting).await {
            Ok(Wake::Served(number)) => self.change_turn(ticket.id, asked.id, |turn| {
                turn.place = Place { number, state: TicketState::Holding, ..turn.place };
            }),
            Ok(Wake::Look) => {}
            Err(_) => self.host.sleep(self.patience).await,
        }
    }

    /// Waits before the next attempt, or until the place may be gone.
    pub(super) async fn pause(&self, ticket: &Ticket, turn: Option<WaitSlot>, pause: Duration) {
        let slept = self.host.sleep(pause);
        let Some(turn) = turn else { return slept.await };
        let (node, asked) = turn.question(ticket);
        let told = std::pin::pin!(node.engine.watch(&asked, TicketState::Holding));
        match select(told, slept).await {
            // The store is asked before the next attempt.
            Either::Left((Ok(_), _)) => self.change_turn(ticket.id, asked.id, |turn| {
                turn.place.state = TicketState::Waiting;
            }),
            Either::Left((Err(_), slept)) => slept.await,
            Either::Right(_) => {}
        }
    }

    /// Removes the place, so the next waiter tries.
    pub(super) async fn pass_turn(&self, turn: Option<WaitSlot>) {
        if let Some(turn) = turn {
            // A store without an answer is asked again in the background.
            let _left = self.in_time(turn.owed.leave()).await;
        }
    }

    /// Whether a renewal is due.
    fn is_stale(&self, ticket: &Ticket, turn: &WaitSlot) -> bool {
        self.host.now().has_reached(turn.signed.plus(ticket.ttl / 4))
    }

    /// Replaces the place of a ticket. The old place is released, and the new one too if the ticket
    /// is gone.
    fn take_turn(&self, id: TicketId, turn: Option<WaitSlot>) {
        let over = match self.tickets().get_mut(&id) {
            Some(known) => std::mem::replace(&mut known.turn, turn),
            None => turn,
        };
        drop(over);
    }

    /// Updates this place, if it is still the ticket's.
    fn change_turn(&self, id: TicketId, place: TicketId, change: impl FnOnce(&mut WaitSlot)) {
        if let Some(TicketRecord { turn: Some(turn), .. }) = self.tickets().get_mut(&id)
            && turn.owed.ticket.id == place
        {
            change(turn);
        }
    }

    /// One request to one store, with its time limit.
    pub(super) async fn in_time<T>(&self, verb: impl Future<Output = Result<T>>) -> Result<T> {
        match select(std::pin::pin!(contained(verb)), self.host.sleep(self.patience)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => Err(late(self.patience)),
        }
    }
}
