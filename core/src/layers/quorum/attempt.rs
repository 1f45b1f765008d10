//! One attempt to be served by a majority. A failed attempt leaves nothing behind.

use std::mem;
use std::sync::atomic::Ordering;

use super::ask::kept;
use super::known::{Stage, TicketRecord};
use super::numbers::{RoundTrip, given};
use super::owed::Attempt;
use super::poll::Poll;
use super::{Quorum, held};
use crate::{LeaveOutcome, Place, Result, Ticket, TicketId, WaitMode};

impl Quorum {
    /// One attempt: a majority serves the ticket at once, or it leaves all stores. `None`: busy.
    pub(super) async fn try_join(&self, ticket: &Ticket, floor: u64) -> Result<Option<Place>> {
        let id = self.next_attempt(ticket.id);
        let floor = ticket.floor.max(floor).max(self.numbers.proposal(&*self.host));
        let asked = Ticket { id, floor, ..ticket.clone() };
        let attempt: Attempt = self.stores.owe(&asked);
        let majority = self.stores.majority();
        let decided = |poll: &Poll<Option<Place>>| {
            let granted = poll.answers().flatten().count();
            let busy = poll.answers().count() - granted;
            granted >= majority || busy > attempt.len() - majority
        };
        let joins = attempt.iter().map(|owed| owed.clone().join(WaitMode::NoWait));
        let mut trip = RoundTrip::begins(&*self.host);
        let poll = self.stores.carry(decided, joins).await;
        trip.ends(&*self.host);
        let granted: Vec<&Place> = poll.answers().flatten().collect();
        if granted.len() < majority {
            return poll.enough_answers(majority).map(|_| None);
        }
        self.stores.board.compare(&given(&poll));
        let number = granted.iter().map(|place| place.number).max().unwrap_or(0);
        let life = granted.iter().filter_map(|place| place.life).min();
        if granted.iter().filter(|place| place.number == number).count() < majority {
            self.write_back(&asked, number).await?;
        }
        self.numbers.learn(&trip, &asked, number);
        // If the owner has left meanwhile, or another attempt succeeded, this one leaves.
        let mut tickets = self.tickets();
        let Some(TicketRecord { stage: stage @ Stage::Trying(_), .. }) =
            tickets.get_mut(&ticket.id)
        else {
            drop(tickets);
            return Ok(None);
        };
        *stage = Stage::Holding { number, attempt };
        let ahead = granted.iter().map(|place| place.ahead).max().unwrap_or(0);
        Ok(Some(Place { ahead, ..held(number, life) }))
    }

    /// The first attempt of a ticket, without the queue. `None`: busy.
    ///
    /// A reader that holds beside other readers yields to a writer in the queue. Otherwise
    /// overlapping readers would starve the writer.
    pub(super) async fn try_past_line(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let Some(place) = self.try_join(ticket, 0).await? else { return Ok(None) };
        if place.ahead == 0 || !self.has_waiting_writer(&ticket.key).await {
            return Ok(Some(place));
        }
        let attempt = match self.tickets().get_mut(&ticket.id) {
            Some(TicketRecord { stage, .. }) => match mem::replace(stage, Stage::Trying(0)) {
                Stage::Holding { attempt, .. } => attempt,
                Stage::Trying(_) => return Ok(None),
            },
            None => return Ok(None),
        };
        // Stores without an answer are asked again in the background.
        let _ = self.give_up(attempt).await;
        Ok(None)
    }

    /// Writes the number to a majority, before it is used.
    async fn write_back(&self, asked: &Ticket, number: u64) -> Result<()> {
        let poll = self.renew_everywhere(Ticket { floor: number, ..asked.clone() }).await;
        let majority = self.stores.majority();
        // A store in which the ticket is leaving does not change it any more.
        if kept(&poll).count() >= majority {
            return Ok(());
        }
        Err(poll.too_few("took down the number", majority))
    }

    /// Removes the attempt that holds.
    pub(super) async fn give_up(&self, attempt: Attempt) -> Result<LeaveOutcome> {
        let leaves = attempt.iter().map(|owed| owed.clone().leave());
        let poll = self.stores.carry(|poll| self.is_out(poll), leaves).await;
        self.verdict_on_leaving(&poll)
    }

    pub(super) fn next_attempt(&self, id: TicketId) -> TicketId {
        id.attempt(self.attempts.fetch_add(1, Ordering::Relaxed))
    }
}
