//! A ticket in a line, as users see it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Key, Note, Owner, Place, Share, Ticket, TicketId, TicketState};

/// A holder or a waiter of a lock: an entry of [`Locks::line`](crate::Locks::line).
///
/// ```
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?.with_owner("worker-7")?;
/// let guard = locks.mutex("invoices/42").note("month's end").lock().await?;
/// let holder = locks.line("invoices/42").await?.remove(0);
/// assert_eq!((holder.id, holder.number), (guard.id(), guard.token().get()));
/// assert_eq!((&*holder.owner, &*holder.note), ("worker-7", "month's end"));
/// assert_eq!(holder.label(), "holding");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineEntry {
    /// The key of the line.
    pub key: Key,
    /// The id of the ticket, which [`break_ticket`](crate::Locks::break_ticket) takes.
    pub id: TicketId,
    /// The owner's name.
    pub owner: Owner,
    /// The owner's note.
    pub note: Note,
    /// The share of the line that the ticket takes.
    pub share: Share,
    /// The requested ttl of the lease.
    pub ttl: Duration,
    /// The ticket's number, above every earlier number of the key. For an exclusive holder it is
    /// the fencing token. A waiter will hold with the number that it has now.
    pub number: u64,
    /// Whether the ticket holds or waits.
    pub state: TicketState,
    /// The ticket was asked to leave: its owner has not stopped yet.
    pub leaving: bool,
    /// The sum of the shares of the tickets ahead. In a long line it may be too large.
    pub ahead: u64,
    /// The time until the ticket expires without another renewal. `None`: it lives as long as its
    /// process.
    pub life: Option<Duration>,
    /// The time at which the ticket joined the line. `None` if the numbers of the store are not
    /// times.
    pub since: Option<SystemTime>,
}

impl LineEntry {
    /// `holding`, `waiting`, or `leaving` for a ticket that was asked to leave.
    pub fn label(&self) -> &'static str {
        match self.state {
            _ if self.leaving => "leaving",
            TicketState::Holding => "holding",
            TicketState::Waiting => "waiting",
        }
    }
}

impl From<(Ticket, Place)> for LineEntry {
    fn from((ticket, place): (Ticket, Place)) -> Self {
        let Ticket { id, key, share, ttl, owner, note, floor: _ } = ticket;
        let Place { number, state, ahead, life, look: _, leaving } = place;
        let since = joined_at(number, SystemTime::now());
        Self { key, id, owner, note, share, ttl, number, state, leaving, ahead, life, since }
    }
}

/// The time that a number stands for: many stores number by the clock, in microseconds. `None` for
/// a number that is no time of the last year.
fn joined_at(number: u64, now: SystemTime) -> Option<SystemTime> {
    const AGE_MAX: Duration = Duration::from_secs(366 * 86_400);
    const SKEW_MAX: Duration = Duration::from_secs(60);
    let joined = UNIX_EPOCH + Duration::from_micros(number);
    let is_time = joined <= now + SKEW_MAX && now < joined + AGE_MAX;
    is_time.then_some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_that_is_a_recent_time_tells_when_a_ticket_joined() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let number = |ago: i64| u64::try_from(1_800_000_000_000_000 - ago * 1_000_000).unwrap();
        assert_eq!(joined_at(number(90), now), Some(now - Duration::from_secs(90)));
        assert_eq!(joined_at(number(-1), now), Some(now + Duration::from_secs(1)));
        for count in [0, 1, 42, 7_000_000_000, number(-61), number(400 * 86_400)] {
            assert_eq!(joined_at(count, now), None, "{count}");
        }
    }
}
