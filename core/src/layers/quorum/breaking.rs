//! Breaks: removing another client's ticket, whether it holds or waits.

use std::time::Duration;

use super::Quorum;
use super::owed::PendingTicket;
use super::poll::Poll;
use crate::layers::AnyEngine;
use crate::{
    CounterValue, Engine as _, Key, LeaveMode, LeaveOutcome, Result, Ticket, TicketId, Window,
};

impl Quorum {
    /// Removes another client's ticket, or one that this client has given up.
    pub(super) async fn take_out(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let seen = self.look(&ticket.key).await?;
        let mut found = LeaveOutcome::Absent;
        for id in seen.attempts_of(ticket.id) {
            let attempt = Ticket { id, ..ticket.clone() };
            match self.leave_everywhere(&attempt, how).await? {
                LeaveOutcome::Absent => {}
                left => found = left,
            }
        }
        let places = seen.turns_of(ticket.id);
        if places.is_empty() || found == LeaveOutcome::Requested {
            // A holder that was asked to leave passes its turn when it leaves.
            return Ok(found);
        }
        if found == LeaveOutcome::Absent {
            let lives = places.iter().map(|(_, place)| place.ttl).max();
            self.mark_as_broken(ticket.id, lives.unwrap_or(ticket.ttl)).await?;
            found = LeaveOutcome::Waiting;
        }
        for (line, place) in places {
            let owed = PendingTicket::found(&self.turns.nodes[line], place);
            self.in_time(owed.leave()).await?;
        }
        Ok(found)
    }

    /// A broken waiter finds its place gone, as after a loss of data, after which it would join
    /// again. A break therefore leaves a mark for the ticket's ttl.
    async fn mark_as_broken(&self, id: TicketId, ttl: Duration) -> Result<()> {
        let marked = self.count_breaks(id, 1, ttl, |_| false).await;
        marked.enough_answers(1).map(drop)
    }

    /// Whether this ticket was broken while it waited.
    pub(super) async fn was_broken(&self, id: TicketId) -> bool {
        let any = |poll: &Poll<CounterValue>| poll.answers().any(|count| count.value > 0);
        any(&self.count_breaks(id, 0, Duration::from_secs(1), &any).await)
    }

    /// The mark's key, which no other ticket uses.
    async fn count_breaks(
        &self,
        id: TicketId,
        by: u64,
        per: Duration,
        decided: impl Fn(&Poll<CounterValue>) -> bool,
    ) -> Poll<CounterValue> {
        let key = Key::new(id.whole().to_string()).expect("an id is a key");
        let window = Some(Window { per, limit: None });
        let count = |engine: AnyEngine| {
            let key = key.clone();
            async move { engine.add(&key, by, window).await }
        };
        self.turns.ask(decided, count).await
    }
}
