//! The names of keys: the prefix is the only text of a user in them.
//!
//! ```text
//! PREFIX/v1/t/LINE/CAPACITY/LEASE/ORDINAL   a ticket, bound to that lease; its value has the id
//! PREFIX/v1/t/LINE/n               the base, which is added to the line's numbers
//! PREFIX/v1/s/LEASE                a session: it goes with its tickets, and so marks an expiry
//! PREFIX/v1/f/LEASE/FENCE          keeps out requests that were given up: see `request_fences`
//! PREFIX/v1/c/LINE                 the line's sequence
//! PREFIX/v1/v/LINE                 the value of the line's key
//! PREFIX/v1/b                      the ticket that was broken last
//! ```
//!
//! A capacity begins with a hexadecimal digit, and `n` comes after all of these. So the tickets of
//! a line are one span.
//!
//! A ticket's key is its session's lease, as in etcd's own mutex, and an ordinal among the tickets
//! of the session in the line. Ordinals are used again: see `ordinals`.

use tenure_core::TicketId;
use tenure_queue::{LineId, Node, Register, SessionId, TicketName};

use crate::request_fences::RequestFence;
use crate::wire::{KeyValue, ResponseHeader};

/// Length of an id in digits.
const ID_BYTES: usize = 32;

/// The keys of one prefix.
#[derive(Clone, Debug)]
pub(crate) struct KeyNames {
    root: String,
}

/// The keys from `from` up to, and without, `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl Span {
    /// Returns the span of all keys that begin with this text, which ends with a slash.
    fn below(text: &str) -> Self {
        let from = text.as_bytes().to_vec();
        let mut end = from.clone();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self { from, end }
    }
}

impl KeyNames {
    pub(crate) fn of(prefix: &str) -> Self {
        Self { root: format!("{prefix}/v1") }
    }

    /// Returns the span of all keys.
    pub(crate) fn all(&self) -> Span {
        Span::below(&format!("{}/", self.root))
    }

    /// Returns the span of all tickets.
    pub(crate) fn tickets(&self) -> Span {
        Span::below(&format!("{}/t/", self.root))
    }

    /// Returns the span of a line's tickets.
    pub(crate) fn line(&self, line: &LineId) -> Span {
        let from = format!("{}/t/{line}/", self.root).into_bytes();
        let end = [&from[..], &[b'f' + 1]].concat();
        Span { from, end }
    }

    /// Returns the spans of a line's tickets with smaller and with larger capacities than this
    /// name.
    pub(crate) fn others(&self, name: &TicketName) -> [Span; 2] {
        let Span { from, end } = self.line(&name.line);
        let own = Span::below(&format!("{}/t/{}/{:08x}/", self.root, name.line, name.of));
        [Span { from, end: own.from }, Span { from: own.end, end }]
    }

    /// Returns the key of the ticket with this ordinal among those of its session.
    pub(crate) fn ticket(&self, name: &TicketName, session: SessionId, ordinal: u32) -> Vec<u8> {
        let TicketName { line, of, .. } = name;
        format!("{}/t/{line}/{of:08x}/{session:016x}/{ordinal:x}", self.root).into_bytes()
    }

    /// Returns a key that never exists, in the place of this ticket's.
    pub(crate) fn nowhere(&self, name: &TicketName) -> Vec<u8> {
        format!("{}/t/{}/{:08x}/-", self.root, name.line, name.of).into_bytes()
    }

    pub(crate) fn session(&self, session: SessionId) -> Vec<u8> {
        format!("{}/s/{session:016x}", self.root).into_bytes()
    }

    /// Returns the span of all sessions.
    pub(crate) fn sessions(&self) -> Span {
        Span::below(&format!("{}/s/", self.root))
    }

    pub(crate) fn register(&self, register: &Register) -> Vec<u8> {
        match register {
            Register::Base(line) => format!("{}/t/{line}/n", self.root),
            Register::Sequence(line) => format!("{}/c/{line}", self.root),
            Register::Value(line) => format!("{}/v/{line}", self.root),
        }
        .into_bytes()
    }

    pub(crate) fn broken(&self) -> Vec<u8> {
        format!("{}/b", self.root).into_bytes()
    }

    pub(crate) fn fence(&self, fence: &RequestFence) -> Vec<u8> {
        format!("{}/f/{:016x}/{:02x}", self.root, fence.session, fence.nth).into_bytes()
    }

    /// Returns the line, the capacity and the ordinal of a ticket's key; `None` for another key.
    pub(crate) fn place_of(&self, key: &[u8]) -> Option<(LineId, u32, u32)> {
        let text = std::str::from_utf8(key).ok()?.strip_prefix(&self.root)?.strip_prefix("/t/")?;
        let mut parts = text.split('/');
        let line = LineId::named(parts.next()?)?;
        let of = u32::from_str_radix(parts.next()?, 16).ok()?;
        SessionId::from_str_radix(parts.next()?, 16).ok()?;
        let ordinal = u32::from_str_radix(parts.next()?, 16).ok()?;
        parts.next().is_none().then_some((line, of, ordinal))
    }

    /// Returns whether this key is a ticket's.
    pub(crate) fn is_ticket(&self, key: &[u8]) -> bool {
        self.place_of(key).is_some()
    }

    /// Returns whether this key is a session's.
    pub(crate) fn is_session(&self, key: &[u8]) -> bool {
        key.starts_with(&self.sessions().from)
    }

    /// Reads the ticket of a key and its value; `None` if that is no ticket.
    pub(crate) fn node(&self, kept: &KeyValue) -> Option<Node> {
        let (line, of, _) = self.place_of(&kept.key)?;
        let (id, body) = kept.value.split_at_checked(ID_BYTES)?;
        let name = TicketName { line, of, id: std::str::from_utf8(id).ok()?.parse().ok()? };
        let (session, created) = (kept.lease.cast_unsigned(), revision(kept.create_revision));
        let node = Node::read(name, session, created, revision(kept.mod_revision), body)?;
        Some(Node { key: kept.key.as_slice().into(), ..node })
    }
}

/// Returns the value of a ticket's key: its id, and its body.
pub(crate) fn value(id: TicketId, body: &[u8]) -> Vec<u8> {
    [id.to_string().as_bytes(), body].concat()
}

/// Converts a revision from etcd, which is never negative.
pub(crate) fn revision(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Returns the revision of an answer; 0 if it has none.
pub(crate) fn answered_at(header: Option<ResponseHeader>) -> u64 {
    header.map_or(0, |header| revision(header.revision))
}

/// Converts a revision for etcd.
pub(crate) fn number(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use tenure_core::{Key, Share, Ticket};

    use super::*;

    #[test]
    fn a_ticket_is_found_by_its_key_and_stands_between_those_of_other_capacities() {
        let keys = KeyNames::of("my/app");
        let ticket = Ticket::new(Key::new("a/b").unwrap(), Share::new(1, 5).unwrap());
        let name = TicketName::of(&ticket);
        let key = keys.ticket(&name, 7, 9);
        assert_eq!(keys.place_of(&key), Some((name.line.clone(), 5, 9)));
        for stranger in [&b"my/app/v1/t/x/y"[..], &keys.nowhere(&name), &keys.session(7)] {
            assert!(!keys.is_ticket(stranger));
        }
        assert_eq!(ticket.id.to_string().len(), ID_BYTES);
        let [before, after] = keys.others(&name);
        let line = keys.line(&name.line);
        assert!(
            line.from == before.from
                && before.end <= key
                && key < after.from
                && after.end == line.end
        );
        assert!(keys.is_session(&keys.session(7)) && !keys.is_session(&key));
        let base = keys.register(&Register::Base(name.line.clone()));
        assert!(line.end <= base && !keys.is_ticket(&base));
        let fence = keys.fence(&RequestFence { session: 7, nth: 9, raised: 0 });
        assert!(!keys.is_ticket(&fence) && !keys.is_session(&fence));
        let largest = TicketName { of: u32::MAX, ..name };
        assert!(keys.ticket(&largest, SessionId::MAX, u32::MAX) < line.end);
    }

    #[test]
    fn a_ticket_is_kept_as_the_page_shows_it() {
        let (id, body) = ("0123456789abcdef0123456789abcdef", "tenure1 1 30000 0 - 11 6");
        let key = "tenure/v1/t/v1.65ed39106f752eb4b6acb52bfb732a2f03aa0000b2db95c9d15fb94dda0ce679/00000005/694d8c2f1b3e5a07/0";
        let texts = "invoices/42ann@h1nightly";
        let page = include_str!("../README.md");
        assert!(page.contains(&format!("    {key}\n\n    {id}{body}\n    {texts}\n")));
        let (key, value) = (key.as_bytes().to_vec(), format!("{id}{body}\n{texts}").into_bytes());
        let kept = KeyValue { key: key.clone(), value, create_revision: 9, ..KeyValue::default() };
        let node = KeyNames::of("tenure").node(&kept).expect("it is a ticket");
        assert_eq!((node.number(), node.told), (9, false));
        let session = 0x694d_8c2f_1b3e_5a07;
        assert_eq!(KeyNames::of("tenure").ticket(&node.name, session, 0), key);
        assert_eq!(node.key[..], key);
        let Ticket { key, share, ttl, owner, note, .. } = node.ticket;
        assert_eq!((key.as_str(), share), ("invoices/42", Share::new(1, 5).unwrap()));
        assert_eq!((&*owner, &*note, ttl.as_secs()), ("ann@h1", "nightly", 30));
    }
}
