//! The rows of the table, one for each key, and their order.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use tenure::Key;
use tenure::inspect::{LineEntry, TicketId, TicketState};
use tenure_kit::duration::brief;

use super::read::ReadLine;
use crate::inspect::line::{age, is_stopped, token};
use crate::inspect::table::{Column, Table};

// A narrow window cuts the last columns off.
const COLUMNS: [Column; 6] = [
    Column::Left("KEY"),
    Column::Left("HELD BY"),
    Column::Right("WAITING"),
    Column::Right("JOINED"),
    Column::Right("LEFT"),
    Column::Right("TOKEN"),
];

/// The first holder of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) id: TicketId,
    pub(super) owner: String,
    /// Only exclusive holders have one.
    token: Option<u64>,
    pub(super) since: Option<SystemTime>,
    /// The end of its lease without a renewal.
    ends: Option<Instant>,
    leaving: bool,
    stopped: bool,
}

impl Holder {
    fn of(entry: &LineEntry) -> Self {
        Self {
            id: entry.id,
            owner: entry.owner.to_string(),
            token: token(entry),
            since: entry.since,
            ends: entry.life.and_then(|life| Instant::now().checked_add(life)),
            leaving: entry.leaving,
            stopped: is_stopped(entry),
        }
    }

    /// The time until its lease ends.
    pub(super) fn left(&self) -> Option<Duration> {
        self.ends.map(|ends| ends.saturating_duration_since(Instant::now()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) holder: Option<Holder>,
    /// Number of holders.
    pub(super) holders: usize,
    pub(super) waiting: usize,
    /// The reason why the line cannot be read.
    pub(super) trouble: Option<String>,
}

impl Row {
    /// Returns `None` for an empty line.
    fn of((key, line): ReadLine) -> Option<Self> {
        let line = match line {
            Ok(line) if line.is_empty() => return None,
            Ok(line) => line,
            Err(trouble) => {
                let trouble = Some(trouble);
                return Some(Self { key, holder: None, holders: 0, waiting: 0, trouble });
            }
        };
        let holding = || line.iter().filter(|entry| entry.state == TicketState::Holding);
        let holders = holding().count();
        Some(Self {
            key,
            holder: holding().next().map(Holder::of),
            holders,
            waiting: line.len() - holders,
            trouble: None,
        })
    }

    fn held_by(&self) -> String {
        let Some(holder) = &self.holder else {
            let unreadable = |trouble: &String| format!("cannot be read: {trouble}");
            return self.trouble.as_ref().map_or(String::new(), unreadable);
        };
        let leaving = match (holder.leaving, holder.stopped) {
            (_, true) => "stopped: ",
            (true, false) => "leaving: ",
            (false, false) => "",
        };
        match self.holders {
            1 => format!("{leaving}{}", holder.owner),
            count => format!("{leaving}{} and {} more", holder.owner, count - 1),
        }
    }

    fn contains(&self, text: &str) -> bool {
        self.key.as_str().contains(text) || self.held_by().contains(text)
    }

    /// The order of the table: keys with waiters, then the holder that joined first, then the key.
    fn order(&self) -> impl Ord {
        let since = self.holder.as_ref().and_then(|holder| holder.since);
        (self.waiting == 0, Reverse(since.map(Reverse)), self.key.as_str().to_owned())
    }

    fn texts(&self) -> [String; 6] {
        let of = |text: fn(&Holder) -> Option<String>| self.holder.as_ref().and_then(text);
        [
            self.key.to_string(),
            self.held_by(),
            if self.waiting == 0 { String::new() } else { self.waiting.to_string() },
            of(|holder| holder.since.map(age).map(brief)).unwrap_or_default(),
            of(|holder| holder.left().map(brief)).unwrap_or_default(),
            of(|holder| holder.token.map(|token| token.to_string())).unwrap_or_default(),
        ]
    }
}

/// All rows.
#[derive(Debug, Default)]
pub(super) struct Rows(BTreeMap<Key, Row>);

impl Rows {
    /// Takes the lines of a read of everything.
    pub(super) fn replace(&mut self, lines: Vec<ReadLine>) {
        self.0.clear();
        self.update(lines);
    }

    /// Takes the lines of some keys.
    pub(super) fn update(&mut self, lines: Vec<ReadLine>) {
        for line in lines {
            let key = line.0.clone();
            match Row::of(line) {
                Some(row) => drop(self.0.insert(key, row)),
                None => drop(self.0.remove(&key)),
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn with_waiters(&self) -> usize {
        self.0.values().filter(|row| row.waiting > 0).count()
    }

    /// The rows whose key or holder contains the text, in the order of the table.
    pub(super) fn shown(&self, filter: &str) -> Vec<&Row> {
        let mut rows: Vec<_> = self.0.values().filter(|row| row.contains(filter)).collect();
        rows.sort_by_cached_key(|row| row.order());
        rows
    }
}

pub(super) fn table(rows: &[&Row]) -> Table {
    let mut table = Table::new(&COLUMNS);
    for row in rows {
        table.row(row.texts());
    }
    table
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::UNIX_EPOCH;

    use tenure::inspect::{Place, Share, Ticket};

    use super::*;

    pub(in super::super) fn line(key: &str, owners: &[&str], age: Option<u64>) -> ReadLine {
        let key = Key::new(key).unwrap();
        let entry = |(at, owner): (usize, &&str)| {
            let ticket = Ticket::new(key.clone(), Share::WHOLE).with_owner(*owner).unwrap();
            let state = if at == 0 { TicketState::Holding } else { TicketState::Waiting };
            let place =
                Place { number: 7, state, ahead: 0, life: None, look: None, leaving: false };
            let since = age.map(|age| UNIX_EPOCH + Duration::from_secs(1_000_000 - age));
            let mut entry = LineEntry::from((ticket, place));
            entry.since = since;
            entry
        };
        let line = owners.iter().enumerate().map(entry).collect();
        (key, Ok(line))
    }

    fn keys(rows: &[&Row]) -> Vec<String> {
        rows.iter().map(|row| row.key.to_string()).collect()
    }

    #[test]
    fn keys_with_waiters_come_first_and_then_the_oldest() {
        let mut rows = Rows::default();
        rows.replace(vec![
            line("young", &["a"], Some(1)),
            line("old", &["a"], Some(100)),
            line("of no age", &["a"], None),
            line("waited for", &["a", "b"], Some(2)),
            line("waited for longer", &["a", "b", "c"], Some(3)),
            (Key::new("broken").unwrap(), Err("the store refuses".into())),
        ]);
        let expected = ["waited for longer", "waited for", "old", "young", "broken", "of no age"];
        assert_eq!(keys(&rows.shown("")), expected);
        assert_eq!((rows.len(), rows.with_waiters()), (6, 2));
        let table = table(&rows.shown("broken")).render(None);
        assert!(table.contains("cannot be read: the store refuses"), "{table}");
    }

    #[test]
    fn a_line_without_tickets_has_no_row() {
        let mut rows = Rows::default();
        rows.replace(vec![line("a", &["x"], None), line("b", &["x"], None)]);
        rows.update(vec![line("a", &[], None), line("c", &["y", "z"], None)]);
        assert_eq!(keys(&rows.shown("")), ["c", "b"]);
    }

    #[test]
    fn a_filter_finds_keys_and_holders() {
        let mut rows = Rows::default();
        rows.replace(vec![line("invoices/1", &["web"], None), line("report", &["cron"], None)]);
        assert_eq!(keys(&rows.shown("voice")), ["invoices/1"]);
        assert_eq!(keys(&rows.shown("cron")), ["report"]);
        assert_eq!(keys(&rows.shown("cron ")), [""; 0]);
    }
}
