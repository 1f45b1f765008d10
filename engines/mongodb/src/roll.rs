//! The roll: which of this client's tickets stand in which record. Who changes or deletes a record by hand names no
//! ticket, so all of its tickets look.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_core::TicketId;
use tenure_kit::mailbox::Mailbox;

/// With so many records, those whose tickets have no box are thrown out.
const RECORDS_FULL: usize = 1024;

/// The tickets of this client, by the record that they stand in.
#[derive(Default)]
pub(crate) struct Roll(Mutex<Records>);

#[derive(Default)]
struct Records {
    tickets: HashMap<String, Vec<Entry>>,
    full: usize,
}

struct Entry {
    id: TicketId,
    /// Whatever was written about the ticket since it is in its line is heard.
    hears: bool,
    /// It found nobody in its line when it came, and may be alone still.
    alone: bool,
    /// It was sent to the server that the ticket joins.
    sent: bool,
}

impl Roll {
    /// The ticket stands in this record from now on, or may. It hears all if the stream hears already.
    pub(crate) fn enter(&self, record: &str, id: TicketId, hears: bool, mail: &Mailbox) {
        self.put(record, Entry { id, hears, alone: false, sent: true }, mail);
    }

    /// The ticket is about to join a line in this record, which is not sent yet.
    pub(crate) fn prepare(&self, record: &str, id: TicketId, hears: bool, mail: &Mailbox) {
        self.put(record, Entry { id, hears, alone: false, sent: false }, mail);
    }

    fn put(&self, record: &str, entry: Entry, mail: &Mailbox) {
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

    /// That the ticket joins is sent now.
    pub(crate) fn sends(&self, record: &str, id: TicketId) {
        self.change(record, id, |entry| entry.sent = true);
    }

    /// Whether the ticket was to join, and its owner gave it up before that was sent.
    pub(crate) fn was_never_sent(&self, record: &str, id: TicketId) -> bool {
        let records = self.records();
        let entries = records.tickets.get(record);
        entries.is_some_and(|all| all.iter().any(|entry| entry.id == id && !entry.sent))
    }

    /// Whether another of this client's tickets may stand in this record.
    pub(crate) fn has_others(&self, record: &str, id: TicketId) -> bool {
        let records = self.records();
        let entries = records.tickets.get(record);
        entries.is_some_and(|entries| entries.iter().any(|entry| entry.id != id))
    }

    /// The ticket found nobody in its line.
    pub(crate) fn came_alone(&self, record: &str, id: TicketId) {
        self.change(record, id, |entry| entry.alone = true);
    }

    /// Whether the ticket may be alone in its line.
    pub(crate) fn may_be_alone(&self, record: &str, id: TicketId) -> bool {
        let records = self.records();
        let entries = records.tickets.get(record);
        entries.is_some_and(|all| all.iter().any(|entry| entry.id == id && entry.alone))
    }

    /// Whether something may have been written about the ticket before the stream heard it.
    pub(crate) fn may_have_missed(&self, record: &str, id: TicketId) -> bool {
        let records = self.records();
        let entries = records.tickets.get(record);
        entries.is_some_and(|all| all.iter().any(|entry| entry.id == id && !entry.hears))
    }

    /// Somebody has looked where the ticket stands since the stream hears: from now on it hears all.
    pub(crate) fn hears(&self, record: &str, id: TicketId) {
        self.change(record, id, |entry| entry.hears = true);
    }

    fn change(&self, record: &str, id: TicketId, change: impl FnOnce(&mut Entry)) {
        let mut records = self.records();
        let entries = records.tickets.get_mut(record);
        if let Some(entry) = entries.and_then(|all| all.iter_mut().find(|entry| entry.id == id)) {
            change(entry);
        }
    }

    /// The ticket is out of this record.
    pub(crate) fn leave(&self, record: &str, id: TicketId) {
        let mut records = self.records();
        if let Some(entries) = records.tickets.get_mut(record) {
            entries.retain(|entry| entry.id != id);
            if entries.is_empty() {
                records.tickets.remove(record);
            }
        }
    }

    /// The tickets that stand in this record.
    pub(crate) fn of(&self, record: &str) -> Vec<TicketId> {
        let records = self.records();
        let entries = records.tickets.get(record);
        entries.map_or_else(Vec::new, |entries| entries.iter().map(|entry| entry.id).collect())
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_on_the_roll_until_it_leaves() {
        let (roll, mail) = (Roll::default(), Mailbox::default());
        let [one, other] = [TicketId::fresh(), TicketId::fresh()];
        for id in [one, other, one] {
            roll.enter("r", id, id == other, &mail);
        }
        assert_eq!(roll.of("r"), [one, other]);
        assert!(roll.may_have_missed("r", one));
        assert!(roll.may_have_missed("r", one), "nobody has looked yet");
        roll.hears("r", one);
        assert!(!roll.may_have_missed("r", one));
        assert!(!roll.may_have_missed("r", other), "the stream was there first");
        roll.leave("r", one);
        roll.leave("r", other);
        assert!(roll.of("r").is_empty() && roll.records().tickets.is_empty());
    }

    #[test]
    fn only_a_ticket_that_is_on_the_roll_is_known_not_to_have_been_sent() {
        let (roll, mail, id) = (Roll::default(), Mailbox::default(), TicketId::fresh());
        assert!(!roll.was_never_sent("r", id));
        roll.prepare("r", id, true, &mail);
        assert!(roll.was_never_sent("r", id));
        roll.sends("r", id);
        roll.prepare("r", id, true, &mail);
        assert!(!roll.was_never_sent("r", id), "it was sent once");
        roll.leave("r", id);
        roll.enter("r", id, true, &mail);
        assert!(!roll.was_never_sent("r", id), "it may have come in by another client");
    }

    #[test]
    fn tickets_without_a_box_are_thrown_out() {
        let (roll, mail) = (Roll::default(), Mailbox::default());
        for record in 0..RECORDS_FULL * 3 {
            roll.enter(&record.to_string(), TicketId::fresh(), true, &mail);
        }
        assert!(roll.records().tickets.len() <= RECORDS_FULL);
    }
}
