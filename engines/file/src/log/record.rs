//! A record is one event of a book in the log.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use tenure_core::line::Count;
use tenure_core::{Key, LeaveMode, Note, Owner, Share, Ticket, TicketId};

/// The owner of a ticket: 128 random bits for every engine value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OwnerId(pub(crate) u128);

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One record. The records of a snapshot (`Kept`, `Above`) are state; all others are also events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A ticket came to the back of its line.
    Joined { session: OwnerId, number: u64, ticket: Cow<'a, Ticket> },
    /// A ticket that was in the line when the log was rewritten.
    Kept { session: OwnerId, number: u64, told: bool, ticket: Cow<'a, Ticket> },
    /// A renewal changed a ticket's note or share, or carried a floor.
    Changed { ticket: Cow<'a, Ticket> },
    /// A ticket was removed, or asked to leave.
    Left { key: Cow<'a, Key>, id: TicketId, how: LeaveMode },
    /// All tickets of a session are out: it is dead.
    Gone { session: OwnerId },
    /// The numbers of this line go on above this one, which is far above the book's floor.
    Above { key: Cow<'a, Key>, number: u64 },
    /// A sequence has come to this value.
    Sequence { key: Cow<'a, Key>, value: u64 },
    /// A windowed count has come to this value, and its window ends then.
    Count { key: Cow<'a, Key>, count: Count },
    /// The value of a key. The empty text removes it.
    Value { key: Cow<'a, Key>, value: Cow<'a, str> },
    /// The book was damaged while these sessions lived. They may hold locks that the new book does
    /// not have.
    DamageHold { aside: Cow<'a, str>, sessions: Cow<'a, [OwnerId]> },
    /// This log was rewritten, in another file of the same name.
    Retired,
}

impl Record<'_> {
    /// Writes the record and its time.
    pub(crate) fn encode(&self, at_us: u64, out: &mut Vec<u8>) {
        out.push(self.kind());
        word(out, at_us);
        match self {
            Self::Joined { session, number, ticket } => {
                long(out, session.0);
                word(out, *number);
                push_ticket(out, ticket);
            }
            Self::Kept { session, number, told, ticket } => {
                long(out, session.0);
                word(out, *number);
                out.push(u8::from(*told));
                push_ticket(out, ticket);
            }
            Self::Changed { ticket } => push_ticket(out, ticket),
            Self::Left { key, id, how } => {
                text(out, key.as_str());
                long(out, id.to_u128());
                out.push(u8::from(*how == LeaveMode::Graceful));
            }
            Self::Gone { session } => long(out, session.0),
            Self::Above { key, number: value } | Self::Sequence { key, value } => {
                text(out, key.as_str());
                word(out, *value);
            }
            Self::Count { key, count: Count { value, ends_us, per_us } } => {
                text(out, key.as_str());
                for number in [value, ends_us, per_us] {
                    word(out, *number);
                }
            }
            Self::Value { key, value } => {
                text(out, key.as_str());
                text(out, value);
            }
            Self::DamageHold { aside, sessions } => {
                text(out, aside);
                sessions.iter().for_each(|session| long(out, session.0));
            }
            Self::Retired => {}
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Joined { .. } => 1,
            Self::Kept { .. } => 2,
            Self::Changed { .. } => 3,
            Self::Left { .. } => 4,
            Self::Gone { .. } => 5,
            Self::Above { .. } => 6,
            Self::Sequence { .. } => 7,
            Self::Count { .. } => 8,
            Self::DamageHold { .. } => 9,
            Self::Retired => 10,
            Self::Value { .. } => 11,
        }
    }

    /// Reads the record and its time; `None` if these bytes are no record.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Record<'static>, u64)> {
        let mut from = RecordReader(bytes);
        let kind = from.byte()?;
        let at_us = from.word()?;
        let record = match kind {
            1 => Record::Joined {
                session: OwnerId(from.long()?),
                number: from.word()?,
                ticket: Cow::Owned(from.ticket()?),
            },
            2 => Record::Kept {
                session: OwnerId(from.long()?),
                number: from.word()?,
                told: from.byte()? == 1,
                ticket: Cow::Owned(from.ticket()?),
            },
            3 => Record::Changed { ticket: Cow::Owned(from.ticket()?) },
            4 => Record::Left {
                key: from.key()?,
                id: TicketId::from_u128(from.long()?),
                how: if from.byte()? == 1 { LeaveMode::Graceful } else { LeaveMode::Now },
            },
            5 => Record::Gone { session: OwnerId(from.long()?) },
            6 => Record::Above { key: from.key()?, number: from.word()? },
            7 => Record::Sequence { key: from.key()?, value: from.word()? },
            8 => Record::Count {
                key: from.key()?,
                count: Count { value: from.word()?, ends_us: from.word()?, per_us: from.word()? },
            },
            9 => Record::DamageHold {
                aside: Cow::Owned(from.text()?.to_owned()),
                sessions: from.sessions()?,
            },
            10 => Record::Retired,
            11 => Record::Value { key: from.key()?, value: Cow::Owned(from.text()?.to_owned()) },
            _ => return None,
        };
        from.0.is_empty().then_some((record, at_us))
    }
}

fn word(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn long(out: &mut Vec<u8>, value: u128) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn half(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    half(out, u32::try_from(text.len()).expect("texts are far below 4 GiB"));
    out.extend_from_slice(text.as_bytes());
}

fn push_ticket(out: &mut Vec<u8>, ticket: &Ticket) {
    long(out, ticket.id.to_u128());
    half(out, ticket.share.take());
    half(out, ticket.share.of());
    word(out, ticket.ttl.as_secs());
    half(out, ticket.ttl.subsec_nanos());
    word(out, ticket.floor);
    text(out, ticket.key.as_str());
    text(out, &ticket.owner);
    text(out, &ticket.note);
}

struct RecordReader<'a>(&'a [u8]);

impl<'a> RecordReader<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn half(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn long(&mut self) -> Option<u128> {
        self.take().map(u128::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.half()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn key<'k>(&mut self) -> Option<Cow<'k, Key>> {
        Key::new(self.text()?).ok().map(Cow::Owned)
    }

    fn sessions<'s>(&mut self) -> Option<Cow<'s, [OwnerId]>> {
        let mut sessions = Vec::new();
        while !self.0.is_empty() {
            sessions.push(OwnerId(self.long()?));
        }
        Some(Cow::Owned(sessions))
    }

    fn ticket(&mut self) -> Option<Ticket> {
        let id = TicketId::from_u128(self.long()?);
        let (take, of) = (self.half()?, self.half()?);
        let (secs, nanos) = (self.word()?, self.half()?);
        Some(Ticket {
            id,
            share: Share::new(take, of).ok()?,
            ttl: Duration::from_secs(secs).checked_add(Duration::from_nanos(nanos.into()))?,
            floor: self.word()?,
            key: Key::new(self.text()?).ok()?,
            owner: Owner::shortened(self.text()?),
            note: Note::shortened(self.text()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> Ticket {
        Ticket {
            id: TicketId::fresh(),
            key: Key::new("a\0b/ü").unwrap(),
            share: Share::new(2, 5).unwrap(),
            ttl: Duration::from_millis(1500),
            owner: Owner::shortened("host/1"),
            note: Note::default(),
            floor: 9,
        }
    }

    #[test]
    fn every_record_is_read_back_as_it_was_written() {
        let (session, ticket) = (OwnerId(77), ticket());
        let key = Cow::Borrowed(&ticket.key);
        let records = [
            Record::Joined { session, number: 5, ticket: Cow::Borrowed(&ticket) },
            Record::Kept { session, number: 5, told: true, ticket: Cow::Borrowed(&ticket) },
            Record::Changed { ticket: Cow::Borrowed(&ticket) },
            Record::Left { key: key.clone(), id: ticket.id, how: LeaveMode::Graceful },
            Record::Gone { session },
            Record::Above { key: key.clone(), number: 6 },
            Record::Sequence { key: key.clone(), value: 7 },
            Record::Count { key: key.clone(), count: Count { value: 8, ends_us: 9, per_us: 10 } },
            Record::Value { key, value: "a\tb".into() },
            Record::DamageHold { aside: "aside".into(), sessions: vec![session, session].into() },
            Record::Retired,
        ];
        for record in records {
            let mut bytes = Vec::new();
            record.encode(1234, &mut bytes);
            assert_eq!(Record::decode(&bytes), Some((record, 1234)));
            for length in 0..bytes.len() {
                let shorter = Record::decode(&bytes[..length]);
                assert!(shorter.is_none() || bytes[0] == 9, "cut at {length}");
            }
        }
    }
}
