//! Short ids: the first eight digits of a ticket's id, as tables show them and options take them.

use tenure::inspect::{LineEntry, TicketId};

use crate::failure::Failure;
use crate::screen::{printable, quoted};

/// Number of digits that are shown, and the minimum that is accepted.
const SHORT_DIGITS: usize = 8;
/// Number of digits of a whole id.
const WHOLE_DIGITS: usize = 32;

/// Returns the short form of an id.
pub(crate) fn short(id: TicketId) -> String {
    let mut digits = id.to_string();
    digits.truncate(SHORT_DIGITS);
    digits
}

/// A whole id, or its first digits, in lower case.
#[derive(Clone, Debug)]
pub(crate) struct IdPrefix(String);

impl IdPrefix {
    /// Reads the argument of an option.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let digits = text.to_ascii_lowercase();
        let are_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        if are_hexadecimal && (SHORT_DIGITS..=WHOLE_DIGITS).contains(&digits.len()) {
            return Ok(Self(digits));
        }
        Err(format!(
            "an id is {SHORT_DIGITS} to {WHOLE_DIGITS} hexadecimal digits: `tenure line KEY` shows \
             the first {SHORT_DIGITS}"
        ))
    }

    /// Returns the id if all its digits are given.
    pub(crate) fn whole(&self) -> Option<TicketId> {
        self.0.parse().ok()
    }

    /// The digits as they are given.
    pub(crate) fn digits(&self) -> &str {
        &self.0
    }

    /// Returns the only ticket of a line with such an id; refuses digits that several ids have.
    pub(crate) fn find<'a>(
        &self,
        key: &str,
        line: &'a [LineEntry],
    ) -> Result<Option<&'a LineEntry>, Failure> {
        // An id is not a message.
        let is_wanted = |entry: &&LineEntry| entry.id.to_string().starts_with(&self.0);
        let found: Vec<_> = line.iter().filter(is_wanted).collect();
        if let [] | [_] = found[..] {
            return Ok(found.first().copied());
        }
        let candidate = |entry: &&LineEntry| format!("{} of {}", entry.id, printable(&entry.owner));
        let candidates: Vec<_> = found.iter().map(candidate).collect();
        Err(Failure::usage(format!(
            "{} tickets of {} begin with {}: write more of the id ({})",
            candidates.len(),
            quoted(key),
            self.0,
            candidates.join(", ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use tenure::Key;
    use tenure::inspect::{Place, Share, Ticket, TicketState};

    use super::*;

    const IDS: [&str; 3] = [
        "0123abcd000000000000000000000001",
        "0123abcd100000000000000000000001",
        "f123abcd000000000000000000000001",
    ];

    fn line() -> Vec<LineEntry> {
        let entry = |id: &str| {
            let ticket = Ticket::new(Key::new("k").unwrap(), Share::READER);
            let mut ticket = ticket.with_owner("worker-7").unwrap();
            ticket.id = id.parse().unwrap();
            let state = TicketState::Holding;
            let place =
                Place { number: 1, state, ahead: 0, life: None, look: None, leaving: false };
            LineEntry::from((ticket, place))
        };
        IDS.map(entry).into()
    }

    #[test]
    fn eight_digits_are_enough_where_they_are_unique() {
        let line = line();
        let find = |digits: &str| {
            let prefix = IdPrefix::parse(digits).unwrap();
            prefix.find("k", &line).map(|found| found.map(|entry| entry.id.to_string()))
        };
        assert_eq!(short(line[0].id), "0123abcd");
        assert_eq!(find("F123ABCD").unwrap().as_deref(), Some(IDS[2]));
        assert_eq!(find("0123abcd1").unwrap().as_deref(), Some(IDS[1]));
        assert_eq!(find(IDS[0]).unwrap().as_deref(), Some(IDS[0]));
        assert_eq!(find("00000000").unwrap(), None);
        let refused = find("0123abcd").unwrap_err();
        assert_eq!(refused.code(), crate::failure::USAGE);
        assert_eq!(
            refused.sentence(),
            format!(
                "2 tickets of `k` begin with 0123abcd: write more of the id ({} of worker-7, {} of \
                 worker-7)",
                IDS[0], IDS[1]
            )
        );
    }

    #[test]
    fn fewer_digits_and_other_letters_are_refused() {
        for text in ["", "0", "0123abc", "0123abcx", &"0".repeat(33), "0123 abcd"] {
            assert!(IdPrefix::parse(text).is_err(), "{text}");
        }
        assert!(IdPrefix::parse(IDS[0]).unwrap().whole().is_some());
        assert!(IdPrefix::parse("0123abcd").unwrap().whole().is_none());
    }
}
