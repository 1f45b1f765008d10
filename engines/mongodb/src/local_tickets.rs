//! The roll: which of this client's tickets stand in which record, and from which opening of the
//! stream each of them is notified.

use std::collections::HashMap;
use std::sync::MutexGuard;

use tenure_core::TicketId;
use tenure_core::sync::Mutex;
use tenure_kit::subscriptions::Subscriptions;

/// Minimum number of records at which tickets without a subscription are removed.
const RECORDS_FULL: usize = 1024;

/// The tickets of this client, by the record that they stand in.
#[derive(Default)]
pub(crate) struct LocalTickets(Mutex<Records>);

#[derive(Default)]
struct Records {
    tickets: HashMap<String, Vec<Entry>>,
    full: usize,
}

struct Entry {
    id: TicketId,
    /// The opening of the stream from which all letters to the ticket are received.
    hears: Option<u64>,
    /// The line was empty when the ticket joined, and may have no other ticket still.
    alone: bool,
    /// The join of the ticket was sent to the server.
    sent: bool,
}

impl LocalTickets {
    /// Records that the ticket stands in this record from now on, or may stand there. It receives
    /// all letters if the stream is open already.
    pub(crate) fn enter(
        &self,
        record: &str,
        id: TicketId,
        hears: Option<u64>,
        mail: &Subscriptions,
    ) {
        self.put(record, Entry { id, hears, alone: false, sent: true }, mail);
    }

    /// Records that the ticket is about to join a line in this record. The join is not sent yet.
    pub(crate) fn prepare(
        &self,
        record: &str,
        id: TicketId,
        hears: Option<u64>,
        mail: &Subscriptions,
    ) {
        self.put(record, Entry { id, hears, alone: false, sent: false }, mail);
    }

    fn put(&self, record: &str, entry: Entry, mail: &Subscriptions) {
        let mut records = self.records();
        if records.tickets.len() >= records.full.max(RECORDS_FULL) {
            records.tickets.retain(|_, entries| {
                entries.retain(|entry| mail.expects(entry.id));
                !entries.is_empty()
            });
            records.full = records.tickets.len() * 2;
        }
        match records.tickets.get_mut(record) {
            Some(entries) if entries.iter().any(|other| other.id == entry.id) => {}
            Some(entries) => entries.push(entry),
            None => drop(records.tickets.insert(record.to_owned(), vec![entry])),
        }
    }

    /// Records that the join of the ticket is sent now.
    pub(crate) fn sends(&self, record: &str, id: TicketId) {
        self.change(record, id, |entry| entry.sent = true);
    }

    /// Returns whether the ticket was to join, and its owner gave up before the join was sent.
    pub(crate) fn was_never_sent(&self, record: &str, id: TicketId) -> bool {
        let records = self.records();
        let entries = records.tickets.get(record);
        entries.is_some_and(|all| all.iter().any(|entry| entry.id == id && !entry.sent))
    }

    /// Returns whether another of this client's tickets may stand in this record.
    pub(crate) fn has_others(&self, record: &str, id: TicketId) -> bool {
        let records = self.records();
        let entries = records.tickets.get(record);
        entries.is_some_and(|entries| entries.iter().any(|entry| entry.id != id))
    }

    /// Records that the line was empty when the ticket joined.
    pub(crate) fn came_alone(&self, record: &str, id: TicketId) {
        self.change(record, id, |entry| entry.alone = true);
    }

    /// Returns whether the ticket may be alone in its line.
    pub(crate) fn may_be_alone(&self, record: &str, id: TicketId) -> bool {
        let records = self.records();
        let entries = records.tickets.get(record);
        entries.is_some_and(|all| all.iter().any(|entry| entry.id == id && entry.alone))
    }

    /// Returns whether a letter to the ticket may have been written before this opening of the
    /// stream.
    pub(crate) fn may_have_missed(&self, record: &str, id: TicketId, opening: u64) -> bool {
        let records = self.records();
        let entries = records.tickets.get(record);
        let missed = |entry: &Entry| entry.id == id && entry.hears != Some(opening);
        entries.is_some_and(|all| all.iter().any(missed))
    }

    /// Records that the ticket was looked at after this opening of the stream: from now on it
    /// receives all letters.
    pub(crate) fn hears(&self, record: &str, id: TicketId, opening: u64) {
        self.change(record, id, |entry| entry.hears = Some(opening));
    }

    fn change(&self, record: &str, id: TicketId, change: impl FnOnce(&mut Entry)) {
        let mut records = self.records();
        let entries = records.tickets.get_mut(record);
        if let Some(entry) = entries.and_then(|all| all.iter_mut().find(|entry| entry.id == id)) {
            change(entry);
        }
    }

    /// Removes the ticket from this record.
    pub(crate) fn leave(&self, record: &str, id: TicketId) {
        let mut records = self.records();
        if let Some(entries) = records.tickets.get_mut(record) {
            entries.retain(|entry| entry.id != id);
            if entries.is_empty() {
                records.tickets.remove(record);
            }
        }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_on_the_roll_until_it_leaves() {
        let (roll, mail) = (LocalTickets::default(), Subscriptions::default());
        let [one, other] = [TicketId::fresh(), TicketId::fresh()];
        for id in [one, other, one] {
            roll.enter("r", id, (id == other).then_some(7), &mail);
        }
        assert_eq!(roll.records().tickets["r"].len(), 2);
        assert!(roll.may_have_missed("r", one, 7));
        assert!(roll.may_have_missed("r", one, 7), "no look was taken yet");
        roll.hears("r", one, 7);
        assert!(!roll.may_have_missed("r", one, 7));
        assert!(!roll.may_have_missed("r", other, 7), "the stream was open first");
        assert!(roll.may_have_missed("r", one, 8), "it was closed meanwhile");
        roll.leave("r", one);
        roll.leave("r", other);
        assert!(roll.records().tickets.is_empty());
    }

    #[test]
    fn only_a_ticket_that_is_on_the_roll_is_known_not_to_have_been_sent() {
        let (roll, mail, id) =
            (LocalTickets::default(), Subscriptions::default(), TicketId::fresh());
        assert!(!roll.was_never_sent("r", id));
        roll.prepare("r", id, None, &mail);
        assert!(roll.was_never_sent("r", id));
        roll.sends("r", id);
        roll.prepare("r", id, None, &mail);
        assert!(!roll.was_never_sent("r", id), "it was sent once");
        roll.leave("r", id);
        roll.enter("r", id, None, &mail);
        assert!(!roll.was_never_sent("r", id), "it may have come in by another client");
    }

    #[test]
    fn tickets_without_a_box_are_thrown_out() {
        let (roll, mail) = (LocalTickets::default(), Subscriptions::default());
        for record in 0..RECORDS_FULL * 3 {
            roll.enter(&record.to_string(), TicketId::fresh(), None, &mail);
        }
        assert!(roll.records().tickets.len() <= RECORDS_FULL);
    }
}
