//! Local tickets: which of this client's tickets stand in which record, and from which opening of
//! the stream each of them is notified.

use tenure_core::TicketId;
use tenure_core::sync::Mutex;
use tenure_kit::subscriptions::Subscriptions;

use crate::record_map::RecordMap;

/// The tickets of this client, by the record that they stand in.
#[derive(Default)]
pub(crate) struct LocalTickets(Mutex<RecordMap<Vec<LocalTicket>>>);

struct LocalTicket {
    id: TicketId,
    /// The opening of the stream from which all letters to the ticket are received.
    hears: Option<u64>,
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
        self.put(record, LocalTicket { id, hears, sent: true }, mail);
    }

    /// Records that the ticket is about to join a line in this record. The join is not sent yet.
    pub(crate) fn prepare(
        &self,
        record: &str,
        id: TicketId,
        hears: Option<u64>,
        mail: &Subscriptions,
    ) {
        self.put(record, LocalTicket { id, hears, sent: false }, mail);
    }

    fn put(&self, record: &str, ticket: LocalTicket, mail: &Subscriptions) {
        let mut records = self.0.lock();
        records.make_room(|tickets| {
            tickets.retain(|ticket| mail.expects(ticket.id));
            !tickets.is_empty()
        });
        let tickets = records.all.entry(record.to_owned()).or_default();
        if tickets.iter().all(|other| other.id != ticket.id) {
            tickets.push(ticket);
        }
    }

    /// Records that the join of the ticket is sent now.
    pub(crate) fn sends(&self, record: &str, id: TicketId) {
        self.with(record, id, |ticket| ticket.sent = true);
    }

    /// Returns whether the ticket was to join, and its owner gave up before the join was sent.
    pub(crate) fn was_never_sent(&self, record: &str, id: TicketId) -> bool {
        self.with(record, id, |ticket| !ticket.sent).unwrap_or(false)
    }

    /// Returns whether a letter to the ticket may have been written before this opening of the
    /// stream.
    pub(crate) fn may_have_missed(&self, record: &str, id: TicketId, opening: u64) -> bool {
        self.with(record, id, |ticket| ticket.hears != Some(opening)).unwrap_or(false)
    }

    /// Records that the ticket was looked at after this opening of the stream: from now on it
    /// receives all letters.
    pub(crate) fn hears(&self, record: &str, id: TicketId, opening: u64) {
        self.with(record, id, |ticket| ticket.hears = Some(opening));
    }

    fn with<T>(
        &self,
        record: &str,
        id: TicketId,
        act: impl FnOnce(&mut LocalTicket) -> T,
    ) -> Option<T> {
        let mut records = self.0.lock();
        let tickets = records.all.get_mut(record)?;
        tickets.iter_mut().find(|ticket| ticket.id == id).map(act)
    }

    /// Removes the ticket from this record.
    pub(crate) fn leave(&self, record: &str, id: TicketId) {
        let mut records = self.0.lock();
        if let Some(tickets) = records.all.get_mut(record) {
            tickets.retain(|ticket| ticket.id != id);
            if tickets.is_empty() {
                records.all.remove(record);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record_map::RECORDS_FULL;

    #[test]
    fn a_ticket_is_known_until_it_leaves() {
        let (tickets, mail) = (LocalTickets::default(), Subscriptions::default());
        let [one, other] = [TicketId::fresh(), TicketId::fresh()];
        for id in [one, other, one] {
            tickets.enter("r", id, (id == other).then_some(7), &mail);
        }
        assert_eq!(tickets.0.lock().all["r"].len(), 2);
        assert!(tickets.may_have_missed("r", one, 7));
        assert!(tickets.may_have_missed("r", one, 7), "no look was taken yet");
        tickets.hears("r", one, 7);
        assert!(!tickets.may_have_missed("r", one, 7));
        assert!(!tickets.may_have_missed("r", other, 7), "the stream was open first");
        assert!(tickets.may_have_missed("r", one, 8), "it was closed meanwhile");
        tickets.leave("r", one);
        tickets.leave("r", other);
        assert!(tickets.0.lock().all.is_empty());
    }

    #[test]
    fn only_a_ticket_that_is_known_is_known_not_to_have_been_sent() {
        let (tickets, mail, id) =
            (LocalTickets::default(), Subscriptions::default(), TicketId::fresh());
        assert!(!tickets.was_never_sent("r", id));
        tickets.prepare("r", id, None, &mail);
        assert!(tickets.was_never_sent("r", id));
        tickets.sends("r", id);
        tickets.prepare("r", id, None, &mail);
        assert!(!tickets.was_never_sent("r", id), "it was sent once");
        tickets.leave("r", id);
        tickets.enter("r", id, None, &mail);
        assert!(!tickets.was_never_sent("r", id), "it may have come in by another client");
    }

    #[test]
    fn tickets_without_a_subscription_are_thrown_out() {
        let (tickets, mail) = (LocalTickets::default(), Subscriptions::default());
        for record in 0..RECORDS_FULL * 3 {
            tickets.enter(&record.to_string(), TicketId::fresh(), None, &mail);
        }
        assert!(tickets.0.lock().all.len() <= RECORDS_FULL);
    }
}
