//! The names of keys: no text of a user but the prefix is a part of them.
//!
//! ```text
//! PREFIX/v1/t/LINE/CAPACITY/TICKET   a ticket, bound to its session's lease
//! PREFIX/v1/s/LEASE                  the session itself: it goes with its tickets, so that an expiry is told from a release
//! PREFIX/v1/n/LINE                   what is added to the line's numbers
//! PREFIX/v1/c/LINE                   the line's sequence
//! PREFIX/v1/b                        the ticket that was broken last
//! PREFIX/v1/x/TICKET                 a ticket that is never to come in
//! ```

use tenure_core::TicketId;
use tenure_queue::{LineId, Name, Node, Register, SessionId};

use crate::wire::KeyValue;

/// All keys of one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    root: String,
}

/// From a key up to, and without, another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl Span {
    /// All keys that begin with this, which ends with a slash.
    fn below(text: &str) -> Self {
        let from = text.as_bytes().to_vec();
        let mut end = from.clone();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self { from, end }
    }
}

impl Keys {
    pub(crate) fn of(prefix: &str) -> Self {
        Self { root: format!("{prefix}/v1") }
    }

    /// Everything.
    pub(crate) fn all(&self) -> Span {
        Span::below(&format!("{}/", self.root))
    }

    /// All tickets.
    pub(crate) fn tickets(&self) -> Span {
        Span::below(&format!("{}/t/", self.root))
    }

    /// The tickets of a line.
    pub(crate) fn line(&self, line: &LineId) -> Span {
        Span::below(&format!("{}/t/{line}/", self.root))
    }

    /// The tickets of a line that go by smaller capacities than this name, and by larger ones.
    pub(crate) fn others(&self, name: &Name) -> [Span; 2] {
        let Span { from, end } = self.line(&name.line);
        let own = Span::below(&format!("{}/t/{}/{:08x}/", self.root, name.line, name.of));
        [Span { from, end: own.from }, Span { from: own.end, end }]
    }

    pub(crate) fn ticket(&self, name: &Name) -> Vec<u8> {
        let Name { line, of, id } = name;
        format!("{}/t/{line}/{of:08x}/{id}", self.root).into_bytes()
    }

    pub(crate) fn session(&self, session: SessionId) -> Vec<u8> {
        format!("{}/s/{session:016x}", self.root).into_bytes()
    }

    pub(crate) fn register(&self, register: &Register) -> Vec<u8> {
        match register {
            Register::Base(line) => format!("{}/n/{line}", self.root),
            Register::Sequence(line) => format!("{}/c/{line}", self.root),
        }
        .into_bytes()
    }

    pub(crate) fn broken(&self) -> Vec<u8> {
        format!("{}/b", self.root).into_bytes()
    }

    pub(crate) fn forestalled(&self, id: TicketId) -> Vec<u8> {
        format!("{}/x/{id}", self.root).into_bytes()
    }

    /// Whose key this is, if it is a ticket's.
    pub(crate) fn name_of(&self, key: &[u8]) -> Option<Name> {
        let text = std::str::from_utf8(key).ok()?.strip_prefix(&self.root)?.strip_prefix("/t/")?;
        let mut parts = text.split('/');
        let line = LineId::named(parts.next()?)?;
        let of = u32::from_str_radix(parts.next()?, 16).ok()?;
        let id = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Name { line, of, id })
    }

    /// Which session this key is of, if it is a session's.
    pub(crate) fn session_of(&self, key: &[u8]) -> Option<SessionId> {
        let text = std::str::from_utf8(key).ok()?.strip_prefix(&self.root)?.strip_prefix("/s/")?;
        SessionId::from_str_radix(text, 16).ok()
    }

    /// The ticket that is kept here; `None` if that is something else.
    pub(crate) fn node(&self, kept: &KeyValue) -> Option<Node> {
        let name = self.name_of(&kept.key)?;
        let (session, created) = (kept.lease.cast_unsigned(), revision(kept.create_revision));
        Node::read(name, session, created, revision(kept.mod_revision), &kept.value)
    }
}

/// Revisions are never negative.
pub(crate) fn revision(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// A revision, as etcd wants it.
pub(crate) fn number(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use tenure_core::{Key, Share, Ticket};

    use super::*;

    #[test]
    fn a_ticket_is_found_by_its_key_and_stands_between_those_of_other_capacities() {
        let keys = Keys::of("my/app");
        let ticket = Ticket::new(Key::new("a/b").unwrap(), Share::new(1, 5).unwrap());
        let name = Name::of(&ticket);
        let key = keys.ticket(&name);
        assert_eq!(keys.name_of(&key), Some(name.clone()));
        assert_eq!(keys.name_of(b"my/app/v1/t/x/y"), None);
        let [before, after] = keys.others(&name);
        let line = keys.line(&name.line);
        assert!(
            line.from == before.from
                && before.end <= key
                && key < after.from
                && after.end == line.end
        );
        assert_eq!(keys.session_of(&keys.session(7)), Some(7));
    }
}
