//! Salvage: the numbers that can still be read in a damaged book, so that none is given again.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use tenure_core::{Key, NUMBER_MAX};

use crate::log::book::Book;
use crate::log::frame::{self, Cut};
use crate::log::header::{HEADER_BYTES, Header};
use crate::log::record::Record;
use crate::log::state::FAR_US;

/// Maximum bytes of a book.
const BOOK_BYTES_MAX: u64 = 1 << 30;
/// Maximum value of a sequence from a record that cannot be checked.
const UNCHECKED_MAX: u64 = NUMBER_MAX / 2;

/// The highest numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Salvage {
    /// The numbers of all lines.
    pub(crate) floor: u64,
    /// The numbers of lines that are far above the clock.
    pub(crate) far: HashMap<Key, u64>,
    pub(crate) sequences: HashMap<Key, u64>,
    /// The last values that can be read, and when each was written. An older one lets a slot run
    /// again, and skips none.
    pub(crate) values: HashMap<Key, (u64, String)>,
    /// The last time, and the time from which sequences went on after an earlier damage.
    pub(crate) last_us: u64,
}

impl Salvage {
    pub(crate) fn read(mut file: &File, index: usize, now_us: u64) -> io::Result<Self> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.take(BOOK_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Self::of(&bytes, index, now_us))
    }

    /// Looks for whole records at every place. Without a header they cannot be checked. Within
    /// limits they still serve as numbers to stay above.
    fn of(bytes: &[u8], index: usize, now_us: u64) -> Self {
        let header = Header::decode(bytes, index as u64);
        let mut saved = Self { floor: header.map_or(0, |header| header.floor), ..Self::default() };
        let mut at = header.map_or(0, |_| HEADER_BYTES);
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let body = frame::peek(rest);
            let fits = |body: &[u8], header: Header| {
                let frame = &rest[..frame::HEAD_BYTES + body.len()];
                frame::cut(frame, header.seed(), at as u64) == Cut::Whole(body)
            };
            let body = body.filter(|body| header.is_none_or(|header| fits(body, header)));
            match body.and_then(|body| Some((Record::decode(body)?, body.len()))) {
                Some(((record, at_us), length)) => {
                    if header.is_some() || is_likely(&record, at_us, now_us) {
                        saved.take(record, at_us);
                    }
                    at += frame::HEAD_BYTES + length;
                }
                None => at += 1,
            }
        }
        saved
    }

    /// Adds what the engine itself remembers of the book.
    pub(crate) fn remember(&mut self, book: &Book) {
        self.last_us = self.last_us.max(book.moment(0));
        let (floor, records) = book.state.snapshot(self.last_us);
        self.floor = self.floor.max(floor);
        for (record, at_us) in records {
            self.take(record, at_us);
        }
    }

    fn take(&mut self, record: Record<'_>, at_us: u64) {
        self.last_us = self.last_us.max(at_us);
        match record {
            Record::Joined { number, ticket, .. } | Record::Kept { number, ticket, .. } => {
                self.number(&ticket.key, number, at_us);
            }
            Record::Changed { ticket } => self.number(&ticket.key, ticket.floor, at_us),
            Record::Above { key, number } => self.number(&key, number, at_us),
            Record::Sequence { key, value } => raise(&mut self.sequences, &key, value),
            // The memory of this process may be older than what the book has.
            Record::Value { key, value } => {
                let is_older =
                    self.values.get(&*key).is_some_and(|(known_us, _)| *known_us > at_us);
                if !is_older {
                    self.values.insert(key.into_owned(), (at_us, value.into_owned()));
                }
            }
            _ => {}
        }
    }

    fn number(&mut self, key: &Key, number: u64, at_us: u64) {
        if number > at_us.saturating_add(FAR_US) {
            raise(&mut self.far, key, number);
        } else {
            self.floor = self.floor.max(number);
        }
    }
}

/// Returns whether the content of a record that cannot be checked is likely.
fn is_likely(record: &Record<'_>, at_us: u64, now_us: u64) -> bool {
    let near = |time: u64| time <= now_us.saturating_add(FAR_US);
    let likely = match record {
        Record::Joined { number, .. } | Record::Kept { number, .. } => near(*number),
        Record::Changed { ticket } => near(ticket.floor),
        Record::Above { .. } | Record::Value { .. } => false,
        Record::Sequence { value, .. } => *value <= UNCHECKED_MAX,
        _ => true,
    };
    likely && near(at_us)
}

fn raise(numbers: &mut HashMap<Key, u64>, key: &Key, to: u64) {
    match numbers.get_mut(key) {
        Some(number) => *number = to.max(*number),
        None => {
            numbers.insert(key.clone(), to);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn log(header: Header, key: &Key) -> Vec<u8> {
        let mut log = header.encode().to_vec();
        for value in [7, 1 << 51, 8] {
            let record = Record::Sequence { key: Cow::Borrowed(key), value };
            frame::push(&mut log, header.seed(), 0, |body| record.encode(50, body));
        }
        log
    }

    #[test]
    fn the_highest_number_is_found_wherever_the_damage_is() {
        let key = Key::new("k").unwrap();
        let header = Header { book: 3, generation: 4, floor: 5, ..Header::default() };
        let whole = log(header, &key);
        let first = HEADER_BYTES + 20;
        for hole in [0..HEADER_BYTES, 8..9, HEADER_BYTES..first, first..first + 1] {
            let mut damaged = whole.clone();
            damaged[hole.clone()].fill(0xff);
            let saved = Salvage::of(&damaged, 3, 60);
            assert_eq!(saved.sequences[&key], 1 << 51, "damaged at {hole:?}");
            assert_eq!(saved.last_us, 50);
        }
        assert_eq!(Salvage::of(&[0; 5000], 3, 60), Salvage::default());
    }

    #[test]
    fn a_value_in_the_book_is_not_replaced_by_an_older_one() {
        let key = Key::new("k").unwrap();
        let header = Header { book: 3, generation: 4, floor: 5, ..Header::default() };
        let mut log = header.encode().to_vec();
        let record = Record::Value { key: Cow::Borrowed(&key), value: "newer".into() };
        frame::push(&mut log, header.seed(), 0, |body| record.encode(50, body));
        let mut saved = Salvage::of(&log, 3, 60);
        assert_eq!(saved.values[&key].1, "newer");
        for (at_us, value, expected) in [(40, "older", "newer"), (70, "newest", "newest")] {
            let key = Cow::Borrowed(&key);
            saved.take(Record::Value { key: key.clone(), value: value.into() }, at_us);
            assert_eq!(saved.values[&*key].1, expected);
        }
    }
}
