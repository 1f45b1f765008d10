//! The names of nodes: chroot and prefix are the only text of a user in them.
//!
//! ```text
//! PREFIX/v1/t/LINE                              a line: a container, whose data is the key
//! PREFIX/v1/t/LINE/CAPACITY-TAKE-TICKET-TAIL    a ticket: ephemeral; ZooKeeper counts the tail
//! PREFIX/v1/t/LINE/less-TICKET-TAKE             the ticket takes less now: ephemeral, too
//! PREFIX/v1/t/LINE/base                         what is added to the line's numbers
//! PREFIX/v1/c/LINE                              the line's sequence
//! PREFIX/v1/c/LINE-value                        the value of the line's key
//! PREFIX/v1/now                                 written for the present transaction, and to renew
//! ```
//!
//! The names have all that decides which tickets are served, so that one listing of a line is
//! enough.

use tenure_core::{Share, TicketId, served};
use tenure_queue::{LineId, Register, TicketName};

/// The base, beside the tickets of a line.
const BASE: &str = "base";
const LESS: &str = "less-";

/// The names below one prefix.
#[derive(Clone, Debug)]
pub(crate) struct NodePaths {
    root: String,
}

/// A ticket, read from its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) name: TicketName,
    /// Its take when it joined.
    pub(crate) asked: u32,
    /// Its take now.
    pub(crate) takes: u32,
    /// ZooKeeper's count in its line.
    pub(crate) tail: i32,
}

/// A line, read from the names in it.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// In the order in which they joined.
    pub(crate) children: Vec<Child>,
    /// The line has a base.
    pub(crate) has_base: bool,
    /// The last transaction in which a ticket joined or left.
    pub(crate) at: u64,
}

impl NodePaths {
    pub(crate) fn of(prefix: &str) -> Self {
        Self { root: format!("/{prefix}/v1") }
    }

    /// Returns the nodes that must exist before any line.
    pub(crate) fn roots(&self) -> [String; 4] {
        let root = &self.root;
        [root.clone(), format!("{root}/t"), format!("{root}/c"), self.now()]
    }

    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    pub(crate) fn now(&self) -> String {
        format!("{}/now", self.root)
    }

    /// Returns the parent of all lines.
    pub(crate) fn lines(&self) -> String {
        format!("{}/t", self.root)
    }

    pub(crate) fn line(&self, line: &LineId) -> String {
        format!("{}/t/{line}", self.root)
    }

    /// Returns the beginning of the name of a new ticket.
    pub(crate) fn beginning(&self, name: &TicketName, asked: u32) -> String {
        let TicketName { line, of, id } = name;
        format!("{}/t/{line}/{of:x}-{asked:x}-{id}-", self.root)
    }

    pub(crate) fn ticket(&self, child: &Child) -> String {
        format!("{}{:010}", self.beginning(&child.name, child.asked), child.tail)
    }

    /// Returns the name of the node that lowers a ticket's take to `takes`.
    pub(crate) fn less(&self, name: &TicketName, takes: u32) -> String {
        format!("{}/{LESS}{}-{takes:x}", self.line(&name.line), name.id)
    }

    pub(crate) fn register(&self, register: &Register) -> String {
        match register {
            Register::Base(line) => format!("{}/{BASE}", self.line(line)),
            Register::Sequence(line) => format!("{}/c/{line}", self.root),
            Register::Value(line) => format!("{}/c/{line}-value", self.root),
        }
    }
}

impl Listing {
    /// Reads a line from its names. Ignores names that are not Tenure's.
    pub(crate) fn read(line: &LineId, names: &[String], at: u64) -> Self {
        let mut children: Vec<Child> = names.iter().filter_map(|name| child(line, name)).collect();
        for (id, takes) in names.iter().filter_map(|name| less(name)) {
            if let Some(child) = children.iter_mut().find(|child| child.name.id == id) {
                child.takes = child.takes.min(takes);
            }
        }
        children.sort_unstable_by_key(Child::order);
        Self { children, has_base: names.iter().any(|name| name == BASE), at }
    }

    /// Returns the ticket with this id: the first, if a lost answer made two of it.
    pub(crate) fn find(&self, id: TicketId) -> Option<&Child> {
        self.children.iter().find(|child| child.name.id == id)
    }

    /// Returns the count of served tickets, which is the index of the first one that is not.
    pub(crate) fn served(&self) -> usize {
        let mut taken = 0;
        let served = self.children.iter().take_while(|child| {
            let share = Share::new(child.takes, child.name.of);
            let fits = share.is_ok_and(|share| served(taken, share));
            taken += u64::from(child.takes);
            fits
        });
        served.count() + 1
    }

    /// Returns the tickets before a ticket.
    pub(crate) fn before(&self, child: &Child) -> &[Child] {
        let ahead = self.children.partition_point(|other| other.order() < child.order());
        &self.children[..ahead]
    }
}

/// Returns the sum of their takes.
pub(crate) fn taken<'a>(children: impl IntoIterator<Item = &'a Child>) -> u64 {
    children.into_iter().map(|child| u64::from(child.takes)).sum()
}

impl Child {
    /// Returns its order in the line. ZooKeeper counts up to `i32::MAX` and goes on below zero.
    pub(crate) fn order(&self) -> u32 {
        self.tail.cast_unsigned()
    }
}

/// Reads a ticket from its name in the line; `None` if that is another node.
pub(crate) fn child(line: &LineId, text: &str) -> Option<Child> {
    let mut parts = text.splitn(4, '-');
    let of = u32::from_str_radix(parts.next()?, 16).ok()?;
    let asked = u32::from_str_radix(parts.next()?, 16).ok()?;
    let id = parts.next()?.parse().ok()?;
    let tail = parts.next()?.parse().ok()?;
    Some(Child { name: TicketName { line: line.clone(), of, id }, asked, takes: asked, tail })
}

fn less(text: &str) -> Option<(TicketId, u32)> {
    let (id, takes) = text.strip_prefix(LESS)?.split_once('-')?;
    Some((id.parse().ok()?, u32::from_str_radix(takes, 16).ok()?))
}

/// Converts a transaction number, which is never negative.
pub(crate) fn zxid(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use tenure_core::{Key, Share, Ticket};

    use super::*;

    fn name() -> TicketName {
        TicketName::of(&Ticket::new(Key::new("a/b").unwrap(), Share::new(3, 5).unwrap()))
    }

    fn listing(names: &[String]) -> Listing {
        Listing::read(&LineId::of(&Key::new("a/b").unwrap()), names, 7)
    }

    #[test]
    fn a_ticket_is_found_by_its_name_and_strangers_do_not_count() {
        let (keys, name) = (NodePaths::of("my/app"), name());
        for tail in [0, 41, i32::MAX, i32::MIN, -1] {
            let child = Child { name: name.clone(), asked: 3, takes: 3, tail };
            let path = keys.ticket(&child);
            let text = path.strip_prefix(&format!("{}/", keys.line(&name.line))).unwrap();
            let read = listing(&[text.to_owned(), "lock-0000000001".into(), "base".into()]);
            assert_eq!((read.children, read.has_base), (vec![child], true), "{text}");
        }
    }

    #[test]
    fn the_order_is_kept_where_the_count_goes_on_below_zero() {
        let children = [i32::MAX - 1, i32::MAX, i32::MIN, i32::MIN + 1];
        let texts: Vec<String> =
            children.iter().rev().map(|tail| format!("5-1-{}-{tail:010}", name().id)).collect();
        let read: Vec<i32> = listing(&texts).children.iter().map(|child| child.tail).collect();
        assert_eq!(read, children);
    }

    #[test]
    fn a_ticket_that_takes_less_is_told_by_names_alone() {
        let id = name().id;
        let read = listing(&[format!("5-5-{id}-0000000003"), format!("less-{id}-1")]);
        assert_eq!((taken(&read.children), read.children[0].asked), (1, 5));
    }

    #[test]
    fn a_ticket_is_kept_as_the_page_shows_it() {
        let line = LineId::of(&Key::new("invoices/42").unwrap());
        let text = "5-1-0123456789abcdef0123456789abcdef-0000000000";
        let body = "tenure1 1 30000 0 - 11 6\ninvoices/42ann@h1nightly";
        let path = format!("{}/{text}", NodePaths::of("tenure").line(&line));
        let page = include_str!("../README.md");
        let shown = format!("    {path}\n\n    {}\n", body.replace('\n', "\n    "));
        assert!(page.contains(&shown), "{shown}");
        let child = child(&line, text).expect("it is a ticket");
        assert_eq!(NodePaths::of("tenure").ticket(&child), path);
        let node = tenure_queue::Node::read(child.name, 1, 9, 9, body.as_bytes());
        let ticket = node.expect("it is a ticket").ticket;
        assert_eq!((ticket.key.as_str(), ticket.share.take()), ("invoices/42", child.asked));
    }
}
