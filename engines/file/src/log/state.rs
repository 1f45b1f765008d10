//! The state of a book: its rows and its counters, replayed from records. Pure.

use std::borrow::Cow;
use std::collections::HashMap;

use tenure_core::line::{Count, Slot};
use tenure_core::{Key, Ticket};

use crate::log::record::{OwnerId, Record};
use crate::log::row::{Hear, LogRow};

/// A number this far above the clock (12 days, in µs) is kept with its own line. Any other is part
/// of the floor of all numbers of the book once its line is forgotten.
pub(crate) const FAR_US: u64 = 1_000_000_000_000;

/// The state of one book.
#[derive(Default)]
pub(crate) struct BookState {
    pub(crate) floor: u64,
    pub(crate) rows: HashMap<Key, LogRow>,
    pub(crate) sequences: HashMap<Key, u64>,
    pub(crate) counts: HashMap<Key, Count>,
    /// The values, and when each was written.
    pub(crate) values: HashMap<Key, (u64, String)>,
    pub(crate) scar: Option<Scar>,
    pub(crate) retired: bool,
}

/// The rest of a book that was damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scar {
    /// The time at which it was set aside. Forgotten sequences go on from here.
    pub(crate) at_us: u64,
    /// The name of the file that it was set aside as.
    pub(crate) aside: String,
    /// The sessions that lived then, and may hold locks that this book does not have.
    pub(crate) sessions: Vec<OwnerId>,
}

impl BookState {
    pub(crate) fn above(floor: u64) -> Self {
        Self { floor, ..Self::default() }
    }

    /// Returns the row of this key, made if there is none.
    pub(crate) fn row(&mut self, key: &Key) -> &mut LogRow {
        if !self.rows.contains_key(key) {
            self.rows.insert(key.clone(), LogRow::default());
        }
        self.rows.get_mut(key).expect("it was just put there")
    }

    /// Removes the tickets of a dead session from every row. Returns whether it had any.
    pub(crate) fn bury(&mut self, dead: OwnerId, hear: &mut Hear<'_>) -> bool {
        let had = self.has(dead);
        if had {
            self.rows.values_mut().for_each(|row| row.bury(dead, hear));
        }
        had
    }

    /// Returns whether a session has a ticket here.
    pub(crate) fn has(&self, session: OwnerId) -> bool {
        self.rows.values().any(|row| row.has(session))
    }

    /// Returns the value of a key.
    pub(crate) fn value(&self, key: &Key) -> &str {
        self.values.get(key).map_or("", |(_, value)| value)
    }

    /// Sets the value of a key. The empty text removes it.
    pub(crate) fn set_value(&mut self, key: &Key, value: &str, at_us: u64) {
        if value.is_empty() {
            self.values.remove(key);
        } else {
            self.values.insert(key.clone(), (at_us, value.to_owned()));
        }
    }

    /// Returns whether something in it must survive a power cut.
    pub(crate) fn is_durable(&self) -> bool {
        !self.sequences.is_empty() || !self.values.is_empty()
    }

    /// Returns the last number of a sequence.
    pub(crate) fn sequence(&self, key: &Key) -> u64 {
        let forgotten = self.scar.as_ref().map_or(0, |scar| scar.at_us);
        self.sequences.get(key).copied().unwrap_or(forgotten)
    }

    /// Applies a record. Returns `false` if it is impossible.
    pub(crate) fn replay(&mut self, record: Record<'_>, at_us: u64, hear: &mut Hear<'_>) -> bool {
        match record {
            Record::Joined { session, number, ticket } => {
                return self.restore(session, number, false, ticket.into_owned(), hear);
            }
            Record::Kept { session, number, told, ticket } => {
                return self.restore(session, number, told, ticket.into_owned(), hear);
            }
            Record::Changed { ticket } => {
                self.row(&ticket.key).renew(&ticket, hear);
            }
            Record::Left { key, id, how } => {
                self.row(&key).leave(id, how, hear);
            }
            Record::Gone { session } => {
                self.bury(session, hear);
            }
            Record::Above { key, number } => self.row(&key).above = number,
            Record::Sequence { key, value } => {
                self.sequences.insert(key.into_owned(), value);
            }
            Record::Count { key, count } => {
                self.counts.insert(key.into_owned(), count);
            }
            Record::Value { key, value } => self.set_value(&key, &value, at_us),
            Record::DamageHold { aside, sessions } => {
                let (aside, sessions) = (aside.into_owned(), sessions.into_owned());
                self.scar = Some(Scar { at_us, aside, sessions });
            }
            Record::Retired => self.retired = true,
        }
        true
    }

    /// Restores a ticket in its line. Returns `false` if it cannot have been there.
    fn restore(
        &mut self,
        session: OwnerId,
        number: u64,
        leaving: bool,
        ticket: Ticket,
        hear: &mut Hear<'_>,
    ) -> bool {
        let row = self.row(&ticket.key);
        // The kernel reports the end of a session: no ticket has an end of its own.
        row.restore(Slot { ticket, session, number, ends: None, leaving }, hear)
    }

    /// Returns the start of a new log: the floor of its numbers, and its first records. Leaves out
    /// idle lines and windows that are over.
    pub(crate) fn snapshot(&self, now_us: u64) -> (u64, Vec<(Record<'_>, u64)>) {
        let near = self.floor.max(now_us).saturating_add(FAR_US);
        let lasts = self.rows.values().map(LogRow::last).filter(|last| *last <= near);
        let floor = lasts.fold(self.floor, u64::max);
        let mut records = Vec::new();
        for (key, row) in &self.rows {
            for seat in row.slots() {
                let (session, number, told) = (seat.session, seat.number, seat.leaving);
                let ticket = Cow::Borrowed(&seat.ticket);
                records.push((Record::Kept { session, number, told, ticket }, now_us));
            }
            if row.last() > floor {
                records
                    .push((Record::Above { key: Cow::Borrowed(key), number: row.last() }, now_us));
            }
        }
        for (key, value) in &self.sequences {
            records.push((Record::Sequence { key: Cow::Borrowed(key), value: *value }, now_us));
        }
        for (key, (at_us, value)) in &self.values {
            let (key, value) = (Cow::Borrowed(key), Cow::Borrowed(value.as_str()));
            records.push((Record::Value { key, value }, *at_us));
        }
        for (key, count) in &self.counts {
            if count.ends_us > now_us {
                let (key, count) = (Cow::Borrowed(key), *count);
                records.push((Record::Count { key, count }, now_us));
            }
        }
        if let Some(Scar { at_us, aside, sessions }) = &self.scar {
            let (aside, sessions) = (aside.into(), sessions.into());
            records.push((Record::DamageHold { aside, sessions }, *at_us));
        }
        (floor, records)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_core::{LeaveMode, NUMBER_MAX, Note, Owner, Share, TicketId, TicketState, WaitMode};

    use super::*;

    const ALICE: OwnerId = OwnerId(1);
    const BOB: OwnerId = OwnerId(2);

    fn ticket(key: &str) -> Ticket {
        Ticket {
            id: TicketId::fresh(),
            key: Key::new(key).unwrap(),
            share: Share::WHOLE,
            ttl: Duration::from_secs(30),
            owner: Owner::shortened("o"),
            note: Note::shortened("n"),
            floor: 0,
        }
    }

    fn join(state: &mut BookState, session: OwnerId, ticket: &Ticket, now: u64) -> u64 {
        let now = now.max(state.floor + 1);
        let place = state.row(&ticket.key).join(session, ticket, WaitMode::Wait, now, &mut |_| {});
        place.unwrap().unwrap().number
    }

    fn rewritten(state: &BookState, now: u64) -> BookState {
        let (floor, records) = state.snapshot(now);
        let mut again = BookState::above(floor);
        for (record, at_us) in records {
            assert!(again.replay(record, at_us, &mut |_| {}));
        }
        again
    }

    #[test]
    fn a_snapshot_keeps_the_line_and_who_is_told() {
        let mut state = BookState::default();
        let (a, b) = (ticket("k"), ticket("k"));
        join(&mut state, ALICE, &a, 10);
        join(&mut state, BOB, &b, 10);
        state.row(&a.key).leave(a.id, LeaveMode::Graceful, &mut |_| {});
        let again = rewritten(&state, 50);
        assert_eq!(again.rows[&a.key].list(), state.rows[&a.key].list());
        assert!(again.rows[&a.key].place(a.id).unwrap().leaving);
        assert_eq!(again.rows[&a.key].ahead_of(11).collect::<Vec<_>>(), [ALICE]);
    }

    #[test]
    fn an_idle_line_is_forgotten_and_its_numbers_still_grow() {
        let mut state = BookState::default();
        let a = ticket("k");
        let number = join(&mut state, ALICE, &a, 1000);
        state.row(&a.key).leave(a.id, LeaveMode::Now, &mut |_| {});
        let mut again = rewritten(&state, 1000);
        assert!(again.rows.is_empty());
        let next = join(&mut again, ALICE, &ticket("k"), 3);
        assert!(next > number, "the clock went back, and {next} is not above {number}");
    }

    #[test]
    fn a_floor_of_one_line_does_not_use_up_the_numbers_of_others() {
        let mut state = BookState::default();
        let far = Ticket { floor: NUMBER_MAX, ..ticket("far") };
        assert_eq!(join(&mut state, ALICE, &far, 10), NUMBER_MAX);
        state.row(&far.key).leave(far.id, LeaveMode::Now, &mut |_| {});
        let mut again = rewritten(&rewritten(&state, 20), 20);
        assert_eq!(join(&mut again, ALICE, &ticket("near"), 30), 30);
        let refused =
            again.row(&far.key).join(BOB, &ticket("far"), WaitMode::Wait, 30, &mut |_| {});
        assert!(refused.is_err(), "it has no numbers left");
    }

    #[test]
    fn every_session_with_somebody_behind_it_is_watched_over() {
        let mut state = BookState::default();
        let two = Share::new(1, 2).unwrap();
        let tickets: Vec<_> = (0..5).map(|_| Ticket { share: two, ..ticket("k") }).collect();
        let numbers: Vec<_> = (1u128..)
            .zip(&tickets)
            .map(|(session, ticket)| join(&mut state, OwnerId(session), ticket, 10))
            .collect();
        let key = &tickets[0].key;
        let ahead = |state: &BookState, at: usize| -> Vec<u128> {
            state.rows[key].ahead_of(numbers[at]).map(|session| session.0).collect()
        };
        assert_eq!(ahead(&state, 0), Vec::<u128>::new());
        assert_eq!(ahead(&state, 2), [1, 2]);
        assert_eq!(ahead(&state, 3), [3]);
        assert_eq!(ahead(&state, 4), [4]);

        let mut behind = Vec::new();
        let mut hear = |note: crate::log::row::Note<'_>| {
            if let crate::log::row::Note::Behind { session, .. } = note {
                behind.push(session.0);
            }
        };
        state.row(key).leave(tickets[0].id, LeaveMode::Now, &mut hear);
        state.row(key).leave(tickets[3].id, LeaveMode::Graceful, &mut hear);
        assert_eq!(behind, [4, 5], "who became the first to wait, and who lost the one ahead");
        assert_eq!(ahead(&state, 4), [2, 3]);
    }

    #[test]
    fn a_burial_serves_those_behind() {
        let mut state = BookState::default();
        let (a, b) = (ticket("k"), ticket("k"));
        join(&mut state, ALICE, &a, 10);
        join(&mut state, BOB, &b, 10);
        assert!(state.bury(ALICE, &mut |_| {}));
        assert!(!state.bury(ALICE, &mut |_| {}), "nothing of it is left");
        assert_eq!(state.rows[&a.key].place(b.id).unwrap().state, TicketState::Holding);
    }

    #[test]
    fn windows_that_are_over_are_left_out_and_sequences_and_values_never() {
        let mut state = BookState::default();
        let key = Key::new("k").unwrap();
        state.counts.insert(key.clone(), Count { value: 3, ends_us: 100, per_us: 100 });
        state.sequences.insert(key.clone(), 7);
        assert_eq!(rewritten(&state, 99).counts.len(), 1);
        assert_eq!(rewritten(&state, 100).counts.len(), 0);
        assert_eq!(rewritten(&state, 100).sequence(&key), 7);
        state.set_value(&key, "text", 40);
        assert_eq!(rewritten(&state, 100).values[&key], (40, "text".to_owned()));
    }
}
