//! The records of this client's tickets.
//!
//! A leave removes the record of its ticket. After a long outage some tickets have expired without
//! a leave, so each record has an end.

use std::collections::HashMap;

use tenure_core::{Ticket, TicketId, Time};

use crate::owed_ticket::QuorumAttempt;
use crate::wait_queue::WaitSlot;

/// With fewer records, ended ones are not removed.
const FEW: usize = 1024;

/// The record of one ticket of this client.
#[derive(Clone)]
pub(crate) struct TicketRecord {
    pub(crate) stage: Stage,
    pub(crate) slot: Option<WaitSlot>,
    /// The ticket has expired in all stores by then, unless it is renewed.
    ends: Time,
}

#[derive(Clone)]
pub(crate) enum Stage {
    /// No majority serves it. Number of attempts that failed since the queue serves it.
    Trying(u32),
    /// A majority serves this attempt.
    Holding { number: u64, attempt: QuorumAttempt },
}

/// The records of all tickets of this client.
#[derive(Default)]
pub(crate) struct TicketRecords {
    pub(crate) by_id: HashMap<TicketId, TicketRecord>,
    /// With this many records, ended ones are removed.
    full: usize,
}

impl TicketRecords {
    /// Adds the record of a ticket that joins now, if there is none. Returns the ended records. The
    /// caller drops them after it has released the lock, because stores may be called at once.
    #[must_use]
    pub(crate) fn add(&mut self, ticket: &Ticket, now: Time) -> Vec<TicketRecord> {
        let mut ended = Vec::new();
        if self.by_id.len() >= self.full.max(FEW) {
            let all = self.by_id.extract_if(|_, record| now.has_reached(record.ends));
            ended = all.map(|(_, record)| record).collect();
            self.full = self.by_id.len() * 2;
        }
        if self.renew(ticket, now).is_none() {
            let (stage, ends) = (Stage::Trying(0), end(ticket, now));
            self.by_id.insert(ticket.id, TicketRecord { stage, slot: None, ends });
        }
        ended
    }

    /// Returns the record of a ticket that is renewed now, and moves its end.
    pub(crate) fn renew(&mut self, ticket: &Ticket, now: Time) -> Option<TicketRecord> {
        let record = self.by_id.get_mut(&ticket.id)?;
        record.ends = end(ticket, now);
        Some(record.clone())
    }
}

/// The end of a record: a ticket lives for one ttl after its last renewal, and leaves are repeated
/// for another one.
fn end(ticket: &Ticket, now: Time) -> Time {
    now.plus(ticket.ttl.saturating_mul(2))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::{Key, Share};

    use super::*;

    const NOW: Time = Time { boot_ns: 0, raw_ns: 0 };

    fn ticket() -> Ticket {
        Ticket::new(Key::new("k").unwrap(), Share::WHOLE)
    }

    #[test]
    fn records_of_tickets_that_never_left_are_removed_and_renewed_ones_stay() {
        let (mut records, kept) = (TicketRecords::default(), ticket());
        let mut ended = records.add(&kept, NOW).len();
        let tickets = FEW * 4;
        for second in 1..=u64::try_from(tickets).unwrap() {
            let now = NOW.plus(Duration::from_secs(second));
            assert!(records.renew(&kept, now).is_some());
            ended += records.add(&ticket(), now).len();
        }
        assert!(records.by_id.len() <= FEW, "{}", records.by_id.len());
        assert_eq!(ended + records.by_id.len(), tickets + 1, "each is removed once");
        assert!(records.by_id.contains_key(&kept.id));
    }
}
