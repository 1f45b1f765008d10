//! The serialised tickets of a line, version 1.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | the version, 1 |
//! | varint | the record's `last` minus the number of the last ticket that is served, or minus 0 |
//! | varint | the number of tickets |
//! | | then for each ticket, from the front of the line: |
//! | 16 | the id, big-endian |
//! | 1 | flags: 1 asked to leave, 2 an exclusive share, 4 an inbox, 8 a note |
//! | varint | the record's `last` minus the ticket's number |
//! | varint | the expiry minus the record's `at_us` |
//! | varint | the ttl in microseconds |
//! | 2 varints | the share, `take` and `of`, unless it is exclusive |
//! | 8 | the inbox, big-endian, if there is one |
//! | varint, text | the owner: its length in bytes, and UTF-8 |
//! | varint, text | the note, if there is one |
//!
//! A varint has seven bits a byte, the lowest first. The highest bit says that another byte
//! follows.

use std::time::Duration;

use tenure_core::line::Slot;
use tenure_core::{Error, Key, Note, Owner, Reason, Result, Share, Ticket, TicketId, errors};

use crate::contract::LineRecord;
use crate::notice::Inbox;

const VERSION: u8 = 1;
const LEAVING: u8 = 1;
const EXCLUSIVE: u8 = 2;
const INBOX: u8 = 4;
const NOTE: u8 = 8;

/// A ticket with the inbox of its client.
pub(crate) type RecordSlot = Slot<Option<Inbox>>;

/// The time and the number that the bytes are relative to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    pub(crate) at_us: u64,
    pub(crate) last: u64,
}

/// The tickets of a record.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct LineTickets {
    /// The largest number of a ticket that was served, or 0.
    pub(crate) served_to: u64,
    pub(crate) slots: Vec<RecordSlot>,
}

/// Serialises tickets. Empty without tickets.
pub(crate) fn write<'a>(
    base: Base,
    served_to: u64,
    slots: impl ExactSizeIterator<Item = &'a RecordSlot>,
) -> Vec<u8> {
    if slots.len() == 0 {
        return Vec::new();
    }
    let mut bytes = vec![VERSION];
    put(&mut bytes, base.last.saturating_sub(served_to));
    put(&mut bytes, slots.len() as u64);
    for slot in slots {
        write_slot(&mut bytes, base, slot);
    }
    bytes
}

fn write_slot(bytes: &mut Vec<u8>, base: Base, slot: &RecordSlot) {
    let Slot { ticket, session: inbox, number, ends, leaving } = slot;
    let is_exclusive = ticket.share == Share::WHOLE;
    let flags = [
        (*leaving, LEAVING),
        (is_exclusive, EXCLUSIVE),
        (inbox.is_some(), INBOX),
        (!ticket.note.is_empty(), NOTE),
    ];
    bytes.extend(ticket.id.to_u128().to_be_bytes());
    bytes.push(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    put(bytes, base.last - number);
    put(bytes, ends.unwrap_or(u64::MAX).saturating_sub(base.at_us));
    put(bytes, micros(ticket.ttl));
    if !is_exclusive {
        put(bytes, ticket.share.take().into());
        put(bytes, ticket.share.of().into());
    }
    if let Some(Inbox(inbox)) = inbox {
        bytes.extend(inbox.to_be_bytes());
    }
    put_text(bytes, &ticket.owner);
    if !ticket.note.is_empty() {
        put_text(bytes, &ticket.note);
    }
}

/// Reads the tickets of a record. `now_us`: if the store's clock was set back, each ticket keeps
/// the life that it had when the record was written.
///
/// # Errors
///
/// A newer version or another program wrote the record.
pub(crate) fn read(key: &Key, record: &LineRecord, now_us: u64) -> Result<LineTickets> {
    let Some((&version, rest)) = record.tickets.split_first() else {
        return Ok(LineTickets::default());
    };
    if version > VERSION {
        return Err(Error::rejected(format!(
            "the line of {key:?} was written in format {version} and this program reads format \
             {VERSION}: update this program"
        ))
        .with_reason(Reason::UnreadableTicket)
        .with_key(key));
    }
    let base = Base { at_us: record.at_us.min(now_us), last: record.last };
    let mut input = Input(rest);
    let tickets = (version == VERSION).then(|| input.tickets(key, base)).flatten();
    tickets.ok_or_else(|| unreadable(key))
}

/// The error of a record that no version of Tenure wrote.
pub(crate) fn unreadable(key: &Key) -> Error {
    errors::with_place(errors::unreadable_ticket(), key, "in its record")
}

/// Returns a time in microseconds, or the largest number if it is longer.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

/// The bytes that are not read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn tickets(&mut self, key: &Key, base: Base) -> Option<LineTickets> {
        let served_to = base.last.checked_sub(self.varint()?)?;
        let count = self.varint()?;
        let slots = (0..count).map(|_| self.slot(key, base)).collect::<Option<_>>()?;
        self.0.is_empty().then_some(LineTickets { served_to, slots })
    }

    fn slot(&mut self, key: &Key, base: Base) -> Option<RecordSlot> {
        let id = TicketId::from_u128(u128::from_be_bytes(self.take(16)?.try_into().ok()?));
        let flags = self.take(1)?[0];
        let number = base.last.checked_sub(self.varint()?)?;
        let ends = Some(base.at_us.saturating_add(self.varint()?));
        let ttl = Duration::from_micros(self.varint()?);
        let share = if flags & EXCLUSIVE != 0 {
            Share::WHOLE
        } else {
            let [take, of] = [self.varint()?, self.varint()?];
            Share::new(take.try_into().ok()?, of.try_into().ok()?).ok()?
        };
        let inbox = match flags & INBOX {
            0 => None,
            _ => Some(Inbox(u64::from_be_bytes(self.take(8)?.try_into().ok()?))),
        };
        let owner = Owner::shortened(self.text()?);
        let note = if flags & NOTE == 0 { Note::default() } else { Note::shortened(self.text()?) };
        let ticket = Ticket { id, key: key.clone(), share, ttl, owner, note, floor: 0 };
        Some(Slot { ticket, session: inbox, number, ends, leaving: flags & LEAVING != 0 })
    }

    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn text(&mut self) -> Option<&'a str> {
        let bytes = usize::try_from(self.varint()?).ok()?;
        std::str::from_utf8(self.take(bytes)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Base = Base { at_us: 1_000_000, last: 46 };

    fn key() -> Key {
        Key::new("k").unwrap()
    }

    fn slots() -> Vec<RecordSlot> {
        let shares = [Share::WHOLE, Share::READER, Share::new(2, 5).unwrap()];
        let slot = |(at, share): (usize, Share)| {
            let ticket = Ticket::new(key(), share).with_owner("worker-7").unwrap();
            let ticket = if at == 0 { ticket } else { ticket.with_note("row 17 of 40").unwrap() };
            let inbox = (at == 1).then_some(Inbox(u64::MAX));
            let number = 44 + at as u64;
            Slot { ticket, session: inbox, number, ends: Some(9_000_000), leaving: at == 0 }
        };
        shares.into_iter().enumerate().map(slot).collect()
    }

    fn record(tickets: Vec<u8>) -> LineRecord {
        LineRecord { at_us: BASE.at_us, last: BASE.last, holder: 44, ends_us: 9_000_000, tickets }
    }

    #[test]
    fn tickets_are_read_back_as_they_were_written() {
        let slots = slots();
        let record = record(write(BASE, 44, slots.iter()));
        let read = read(&key(), &record, 2_000_000).unwrap();
        assert_eq!(read, LineTickets { served_to: 44, slots });
        assert!(write(BASE, 44, std::iter::empty()).is_empty());
    }

    #[test]
    fn a_ticket_keeps_its_life_while_the_clock_of_the_store_is_set_back() {
        let record = record(write(BASE, 44, slots().iter()));
        let read = read(&key(), &record, 400_000).unwrap();
        assert_eq!(read.slots[0].ends, Some(8_400_000), "8 s, as when it was written");
    }

    #[test]
    fn the_bytes_of_a_single_ticket_depend_neither_on_the_clock_nor_on_the_number() {
        let at = |at_us: u64, number| {
            let slot = &mut slots()[0];
            (slot.number, slot.ends) = (number, Some(at_us + 5));
            slot.ticket.id = TicketId::from_u128(7);
            write(Base { at_us, last: number }, number, std::iter::once(&*slot))
        };
        assert_eq!(at(1, 46), at(7_000_000, 1 << 52));
    }

    #[test]
    fn a_record_of_a_newer_version_is_refused_by_a_sentence() {
        let mut bytes = write(BASE, 44, slots().iter());
        bytes[0] = 2;
        let error = read(&key(), &record(bytes), 0).unwrap_err();
        assert_eq!(error.reason(), Some(Reason::UnreadableTicket));
        assert!(error.to_string().contains("format 2"), "{error}");
    }

    #[test]
    fn a_record_that_is_cut_or_spoilt_is_refused() {
        let bytes = write(BASE, 44, slots().iter());
        for at in 1..bytes.len() {
            assert!(read(&key(), &record(bytes[..at].to_vec()), 0).is_err(), "{at}");
        }
        assert!(read(&key(), &record([&bytes[..], &[0]].concat()), 0).is_err());
        let long = [&[VERSION][..], &[0xff; 11]].concat();
        for spoilt in [vec![0], vec![VERSION, 47], long] {
            let error = read(&key(), &record(spoilt), 0).unwrap_err();
            assert_eq!(error.reason(), Some(Reason::UnreadableTicket));
        }
    }
}
