//! The toy's table: what a real store does in one atomic step for each verb. Time is an argument.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tenure_core::line::Count;
use tenure_core::{
    CounterValue, Key, LINE_TICKETS_MAX, LeaveMode, LeaveOutcome, NUMBER_MAX, Place, Result, Share,
    Ticket, TicketId, TicketState, WaitMode, Window, errors, served,
};

/// Everything that the store keeps. The clock is in microseconds since 1970.
#[derive(Default)]
pub(crate) struct Table {
    lines: BTreeMap<Key, Rows>,
    pub(crate) counters: Counters,
    pub(crate) values: Values,
}

/// The sequences and the windowed counts.
#[derive(Default)]
pub(crate) struct Counters {
    sequences: BTreeMap<Key, u64>,
    counts: BTreeMap<Key, Count>,
}

/// The line of one key: its tickets by their numbers, which is the order in which they came.
#[derive(Default)]
pub(crate) struct Rows {
    tickets: BTreeMap<u64, TicketRow>,
    /// The last number that was given, or the floor of a renewal above it.
    last: u64,
}

struct TicketRow {
    ticket: Ticket,
    ends: u64,
    /// Whether the ticket was asked to leave.
    told: bool,
}

impl Table {
    /// Carries out one step on one line. Also returns the tickets whose state it changed, which the
    /// engine notifies.
    pub(crate) fn step<T>(
        &mut self,
        key: &Key,
        now: u64,
        act: impl FnOnce(&mut Rows) -> T,
    ) -> (T, Vec<TicketId>) {
        let rows = self.lines.entry(key.clone()).or_default();
        let before = rows.served();
        rows.tickets.retain(|_, row| row.ends > now);
        let answer = act(rows);
        let after = rows.served();
        // A line may be forgotten once the clock alone makes larger numbers than it ever had.
        if rows.tickets.is_empty() && rows.last < now {
            self.lines.remove(key);
        }
        let (gone, new) = (minus(&before, &after), minus(&after, &before));
        (answer, [gone, new].concat())
    }

    pub(crate) fn keys(&mut self, prefix: &str, now: u64) -> Vec<Key> {
        let lives = |rows: &Rows| rows.tickets.values().any(|row| row.ends > now);
        let all = self.lines.iter().filter(|(key, rows)| {
            // A prefix is text: neither a pattern nor a path.
            key.as_str().starts_with(prefix) && lives(rows)
        });
        all.map(|(key, _)| key.clone()).collect()
    }
}

impl Counters {
    pub(crate) fn add(
        &mut self,
        key: &Key,
        by: u64,
        window: Option<Window>,
        now: u64,
    ) -> Result<CounterValue> {
        let Some(window) = window else {
            let last = self.sequences.get(key).copied().unwrap_or(0);
            let value = errors::checked_sum(key, last, by)?;
            self.sequences.insert(key.clone(), value);
            return Ok(CounterValue::of_sequence(value));
        };
        self.counts.retain(|_, count| count.ends_us > now);
        let (value, changed) = Count::add(self.counts.get(key).copied(), key, by, window, now)?;
        self.counts.extend(changed.map(|count| (key.clone(), count)));
        Ok(value)
    }
}

/// Values, each replaced only by a caller that has seen it.
pub(crate) type Values = HashMap<Key, String>;

impl Rows {
    pub(crate) fn join(
        &mut self,
        ticket: &Ticket,
        patience: WaitMode,
        now: u64,
    ) -> Result<Option<Place>> {
        if let Some(row) = self.row(ticket.id) {
            if row.ticket.owner != ticket.owner {
                return Err(errors::id_of_another(&ticket.key, ticket.id, &row.ticket.owner));
            }
            return Ok(self.renew(ticket, now));
        }
        let kept = self.tickets.values().next().map(|first| first.ticket.share.of());
        if let Some(kept) = kept.filter(|kept| *kept != ticket.share.of()) {
            return Err(errors::other_capacity(&ticket.key, kept.into(), ticket.share));
        }
        let ahead = self.tickets.values().map(|row| u64::from(row.ticket.share.take())).sum();
        if patience == WaitMode::NoWait && !served(ahead, ticket.share) {
            return Ok(None);
        }
        if self.tickets.len() >= LINE_TICKETS_MAX {
            return Err(errors::line_is_full(&ticket.key));
        }
        let number = (self.last + 1).max(now).max(ticket.floor);
        if number > NUMBER_MAX {
            return Err(errors::no_numbers_left(&ticket.key, number));
        }
        self.last = number;
        let ends = now.saturating_add(micros(ticket.ttl));
        self.tickets.insert(number, TicketRow { ticket: ticket.clone(), ends, told: false });
        Ok(self.place(ticket.id, now))
    }

    pub(crate) fn renew(&mut self, ticket: &Ticket, now: u64) -> Option<Place> {
        let row = self.tickets.values_mut().find(|row| row.ticket.id == ticket.id)?;
        if !row.told {
            row.ends = row.ends.max(now.saturating_add(micros(ticket.ttl)));
            row.ticket.note = ticket.note.clone();
            let (kept, asked) = (row.ticket.share, ticket.share.take());
            row.ticket.share = Share::new(asked.min(kept.take()), kept.of()).unwrap_or(kept);
            self.last = self.last.max(ticket.floor.min(NUMBER_MAX));
        }
        self.place(ticket.id, now)
    }

    pub(crate) fn leave(&mut self, id: TicketId, how: LeaveMode, now: u64) -> LeaveOutcome {
        let Some(place) = self.place(id, now) else { return LeaveOutcome::Absent };
        if how == LeaveMode::Graceful && place.state == TicketState::Holding {
            let told = self.tickets.get_mut(&place.number).map(|row| row.told = true);
            return told.map_or(LeaveOutcome::Absent, |()| LeaveOutcome::Requested);
        }
        self.tickets.remove(&place.number);
        match place.state {
            TicketState::Holding => LeaveOutcome::Holding,
            TicketState::Waiting => LeaveOutcome::Waiting,
        }
    }

    pub(crate) fn place(&self, id: TicketId, now: u64) -> Option<Place> {
        self.list(now).into_iter().find(|(ticket, _)| ticket.id == id).map(|(_, place)| place)
    }

    /// The tickets with their places, from the front. [`served`] is the one rule.
    pub(crate) fn list(&self, now: u64) -> Vec<(Ticket, Place)> {
        let left = |ends: u64| Duration::from_micros(ends.saturating_sub(now));
        let (mut ahead, mut first_end) = (0, u64::MAX);
        let place = |(number, row): (&u64, &TicketRow)| {
            let holding = served(ahead, row.ticket.share);
            if holding {
                first_end = first_end.min(row.ends);
            }
            let place = Place {
                number: *number,
                state: if holding { TicketState::Holding } else { TicketState::Waiting },
                ahead,
                life: Some(left(row.ends)),
                look: (!holding).then(|| left(first_end)),
                leaving: row.told,
            };
            ahead += u64::from(row.ticket.share.take());
            (row.ticket.clone(), place)
        };
        self.tickets.iter().map(place).collect()
    }

    fn row(&self, id: TicketId) -> Option<&TicketRow> {
        self.tickets.values().find(|row| row.ticket.id == id)
    }

    fn served(&self) -> Vec<TicketId> {
        let line = self.list(0).into_iter();
        let holds = |place: &Place| place.state == TicketState::Holding;
        line.filter(|(_, place)| holds(place)).map(|(ticket, _)| ticket.id).collect()
    }
}

fn minus(some: &[TicketId], others: &[TicketId]) -> Vec<TicketId> {
    some.iter().filter(|id| !others.contains(id)).copied().collect()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
