//! A node is a ticket as the store keeps it: a name that leads to it, a body with its fields, and
//! its number.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Key, Note, Owner, Share, Ticket, TicketId};

/// First word of a body.
const FORM: &str = "tenure1";
/// Namespace of the hashed names of lines, as in all engines.
const NAMESPACE: &str = "tenure";
/// Length of a line's name: `v1.` and 64 digits.
const LINE_BYTES: usize = 67;

/// A line, by the [canonical form](Key::canonical) of its key. No text of a user is part of a name
/// in a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineId(Arc<str>);

impl LineId {
    /// Returns the line of this key.
    pub fn of(key: &Key) -> Self {
        Self(key.canonical(NAMESPACE).into())
    }

    /// Returns the line with this name, as [`Display`](fmt::Display) shows it.
    pub fn named(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("v1.")?;
        let is_name = text.len() == LINE_BYTES && digits.bytes().all(|it| it.is_ascii_hexdigit());
        is_name.then(|| Self(text.into()))
    }
}

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a node. The capacity is a part of it, so that a store can refuse a mixed line by
/// names alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TicketName {
    /// Its line.
    pub line: LineId,
    /// The capacity that its owner uses.
    pub of: u32,
    /// The ticket's id.
    pub id: TicketId,
}

impl TicketName {
    /// Returns the name of a ticket's node.
    pub fn of(ticket: &Ticket) -> Self {
        Self { line: LineId::of(&ticket.key), of: ticket.share.of(), id: ticket.id }
    }
}

/// A ticket as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: TicketName,
    /// The session that keeps it alive.
    pub session: u64,
    /// The number that the store gave it when it was made. It grows from node to node, and is the
    /// order of the line.
    pub created: u64,
    /// The number of its last change.
    pub version: u64,
    /// The ticket as it joined, with its latest note and share.
    pub ticket: Ticket,
    /// The number that is added to `created`.
    pub base: u64,
    /// It was asked to leave.
    pub told: bool,
    /// Its key in the store; empty if the store finds it by its name.
    pub key: Arc<[u8]>,
}

impl Node {
    /// Reads a node from its name and body; `None` if that is no ticket.
    pub fn read(
        name: TicketName,
        session: u64,
        created: u64,
        version: u64,
        body: &[u8],
    ) -> Option<Self> {
        let (head, rest) = std::str::from_utf8(body).ok()?.split_once('\n')?;
        let words: Vec<&str> = head.split(' ').collect();
        let [FORM, take, ttl, base, told, key, owner] = words[..] else { return None };
        let (key, rest) = rest.split_at_checked(key.parse().ok()?)?;
        let (owner, note) = rest.split_at_checked(owner.parse().ok()?)?;
        let ticket = Ticket {
            id: name.id,
            key: Key::new(key).ok()?,
            share: Share::new(take.parse().ok()?, name.of).ok()?,
            ttl: Duration::from_millis(ttl.parse().ok()?),
            owner: Owner::shortened(owner),
            note: Note::shortened(note),
            floor: 0,
        };
        let (base, told) = (base.parse().ok()?, told == "told");
        let at = Arc::default();
        Some(Self { name, session, created, version, ticket, base, told, key: at })
    }

    /// Returns the body of a ticket.
    pub(crate) fn body(ticket: &Ticket, base: u64, told: bool) -> Vec<u8> {
        let Ticket { key, share, ttl, owner, note, .. } = ticket;
        let (take, ttl, told) = (share.take(), ttl.as_millis(), if told { "told" } else { "-" });
        let (key, owner_bytes) = (key.as_str(), owner.len());
        let head = format!("{FORM} {take} {ttl} {base} {told} {} {owner_bytes}\n", key.len());
        [&head, key, owner, note].concat().into_bytes()
    }

    /// Returns the ticket's number, which is its token once it is served.
    pub fn number(&self) -> u64 {
        self.created.saturating_add(self.base)
    }

    /// Returns the part of the capacity that it takes.
    pub fn take(&self) -> u64 {
        self.ticket.share.take().into()
    }

    /// Returns whether it takes the whole capacity.
    pub(crate) fn takes_all(&self) -> bool {
        self.take() == u64::from(self.name.of)
    }

    /// Returns whether it is the same node, unchanged.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        (self.created, self.version) == (other.created, other.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_back_as_it_was_written() {
        let ticket = Ticket {
            note: Note::shortened("a note\nof two lines"),
            ..Ticket::new(Key::new("a\0b\nü/ 7").unwrap(), Share::new(2, 5).unwrap())
        };
        for (base, told) in [(0, false), (7, true)] {
            let body = Node::body(&ticket, base, told);
            let read =
                Node::read(TicketName::of(&ticket), 1, 40, 41, &body).expect("it is a ticket");
            assert_eq!((&read.ticket, read.number(), read.told), (&ticket, 40 + base, told));
        }
    }

    #[test]
    fn a_body_is_written_as_the_pages_of_the_engines_show_it() {
        let key = Key::new("invoices/42").unwrap();
        let ticket = Ticket {
            owner: Owner::shortened("ann@h1"),
            note: Note::shortened("nightly"),
            ..Ticket::new(key, Share::new(1, 5).unwrap())
        };
        let body = Node::body(&ticket, 0, false);
        let text = "tenure1 1 30000 0 - 11 6\ninvoices/42ann@h1nightly";
        assert_eq!(String::from_utf8(body).unwrap(), text);
    }

    #[test]
    fn a_line_is_called_as_by_all_engines_and_is_found_by_that_name() {
        let key = Key::new("a/b").unwrap();
        let line = LineId::of(&key);
        assert_eq!(line.to_string(), key.canonical("tenure"));
        assert_eq!(LineId::named(&line.to_string()), Some(line));
        for stranger in ["", "v1.", "v1.0", &"0".repeat(LINE_BYTES)] {
            assert_eq!(LineId::named(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn a_body_of_no_ticket_is_not_read_as_one() {
        let name = TicketName::of(&Ticket::new(Key::new("a").unwrap(), Share::WHOLE));
        for body in [
            "",
            "tenure1",
            "tenure1 1 1 0 - 9 9\na",
            "other 1 1 0 - 1 1\nab",
            "tenure1 0 1 0 - 1 1\nab",
        ] {
            assert_eq!(Node::read(name.clone(), 1, 1, 1, body.as_bytes()), None, "{body}");
        }
    }
}
