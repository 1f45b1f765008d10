//! What a crash leaves behind: the old state or the new one, wherever it came.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tenure_core::{Key, Leave, Patience, Place, Share, Ticket, TicketId};

use crate::book::{self, Book, Look};
use crate::header::{HEADER_BYTES, Header};
use crate::herald::Herald;
use crate::journal::Journal;
use crate::record::{Record, SessionId};

struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tenure-file-crash-{}-{count}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn ticket(key: &str) -> Ticket {
    Ticket {
        id: TicketId::fresh(),
        key: Key::new(key).unwrap(),
        share: Share::WHOLE,
        ttl: Duration::from_secs(30),
        owner: "owner".into(),
        note: "note".into(),
        floor: 0,
    }
}

/// What is to be seen of a book.
type Seen = (Vec<(Ticket, Place)>, u64);

fn see(book: &Book, key: &Key) -> Seen {
    let line = book.state.rows.get(key).map(crate::row::Row::list).unwrap_or_default();
    (line, book.state.sequence(key))
}

fn open(dir: &Path) -> Option<(Book, Look)> {
    let file = File::options().read(true).write(true).open(book::path(dir, 0)).unwrap();
    let mut book = Book::open(file, 0, None).unwrap()?;
    let (mut journal, mut notices) = (Journal::default(), Vec::new());
    let mut herald = Herald::new(SessionId(9), true, 0, &mut journal, &mut notices);
    let look = book.catch_up(&mut herald).unwrap();
    Some((book, look))
}

fn happen(book: &mut Book, record: &Record<'_>) {
    assert!(book.state.replay(record.clone(), 5, &mut |_| {}));
    book.push(record, 5);
}

/// A book with a history: what was to be seen after each write, and how long the file was then.
fn history(dir: &Path, key: &Key) -> Vec<(u64, Seen)> {
    drop(book::create(dir, Header::default(), &[], None, false).unwrap());
    let (mut book, _) = open(dir).unwrap();
    let tickets = [ticket(key.as_str()), ticket(key.as_str()), ticket(key.as_str())];
    let join = |at: usize| Record::Joined {
        session: SessionId(at as u128 + 1),
        number: at as u64 + 10,
        ticket: std::borrow::Cow::Borrowed(&tickets[at]),
    };
    let (key_of, id) = (std::borrow::Cow::Borrowed(key), tickets[0].id);
    let writes = [
        vec![join(0)],
        vec![join(1)],
        vec![Record::Sequence { key: key_of.clone(), value: 7 }],
        vec![Record::Left { key: key_of.clone(), id, how: Leave::Soon }],
        vec![Record::Left { key: key_of.clone(), id, how: Leave::Now }],
        vec![join(2)],
        vec![Record::Gone { session: SessionId(2) }],
    ];
    let mut seen = vec![(HEADER_BYTES as u64, see(&book, key))];
    for records in writes {
        for record in &records {
            happen(&mut book, record);
        }
        book.write().unwrap();
        seen.push((fs::metadata(book::path(dir, 0)).unwrap().len(), see(&book, key)));
    }
    seen
}

#[test]
fn a_log_cut_at_any_byte_is_what_it_was_after_some_write() {
    let dir = Dir::new();
    let key = Key::new("k").unwrap();
    let seen = history(&dir.0, &key);
    let path = book::path(&dir.0, 0);
    let whole = fs::read(&path).unwrap();
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let Some((mut book, look)) = open(&dir.0) else {
            assert!(length < HEADER_BYTES, "no header in {length} bytes");
            continue;
        };
        assert_eq!(look, Look::Current, "cut at {length}");
        let (kept, last) = seen.iter().rfind(|(end, _)| *end <= length as u64).unwrap();
        assert_eq!(see(&book, &key), *last, "cut at {length}");
        assert_eq!(fs::metadata(&path).unwrap().len(), *kept, "the torn end is cut off");
        happen(&mut book, &Record::Sequence { key: std::borrow::Cow::Borrowed(&key), value: 99 });
        book.write().unwrap();
        let (again, look) = open(&dir.0).unwrap();
        assert_eq!((look, again.state.sequence(&key)), (Look::Current, 99), "cut at {length}");
    }
}

#[test]
fn a_flipped_bit_is_damage_wherever_it_is() {
    let dir = Dir::new();
    history(&dir.0, &Key::new("k").unwrap());
    let path = book::path(&dir.0, 0);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, flipped).unwrap();
        let look = open(&dir.0).map(|(_, look)| look);
        assert!(!matches!(look, Some(Look::Current | Look::Replaced)), "byte {at}: {look:?}");
    }
}

#[test]
fn zeros_behind_the_log_are_what_a_power_cut_leaves() {
    let dir = Dir::new();
    let key = Key::new("k").unwrap();
    let seen = history(&dir.0, &key);
    let path = book::path(&dir.0, 0);
    let mut longer = fs::read(&path).unwrap();
    longer.extend_from_slice(&[0; 5000]);
    fs::write(&path, longer).unwrap();
    let (book, look) = open(&dir.0).unwrap();
    assert_eq!((look, see(&book, &key)), (Look::Current, seen.last().unwrap().1.clone()));
}

#[test]
fn a_log_that_is_written_anew_says_the_same_and_the_old_one_says_that_it_is_over() {
    let dir = Dir::new();
    let key = Key::new("k").unwrap();
    history(&dir.0, &key);
    let (mut book, _) = open(&dir.0).unwrap();
    let (mut other, _) = open(&dir.0).unwrap();
    // A backup may have linked the file: its last name is not gone then.
    fs::hard_link(book::path(&dir.0, 0), dir.0.join("backup")).unwrap();
    let before = see(&book, &key);
    book.rewrite(&dir.0, book.header(), 50).unwrap();
    assert_eq!(see(&book, &key), before);
    let (again, look) = open(&dir.0).unwrap();
    assert_eq!((look, see(&again, &key)), (Look::Current, before));
    let (mut journal, mut notices) = (Journal::default(), Vec::new());
    let mut herald = Herald::new(SessionId(9), true, 0, &mut journal, &mut notices);
    assert_eq!(other.catch_up(&mut herald).unwrap(), Look::Replaced);
}

#[test]
fn after_a_start_of_the_machine_numbers_are_above_any_that_were_lost() {
    let dir = Dir::new();
    let store = crate::FileStore::open(dir.0.join("store")).unwrap();
    let mine = ticket("k");
    let index = crate::store::book_of(&mine.key);
    let books = dir.0.join("store/books");
    let old = Header { book: index as u64, boot: 1, floor: 1 << 51, ..Header::default() };
    drop(book::create(&books, old, &[], None, false).unwrap());
    let joined = store.store.visit_patiently(index, |visit| {
        let now_us = visit.now_us.max(visit.state().floor + 1);
        visit.change(|state, hear| {
            state.row(&mine.key).join(SessionId(1), &mine, Patience::Wait, now_us, hear)
        })
    });
    let number = joined.unwrap().unwrap().number;
    if crate::store::boot() != 0 {
        assert!(number > (1 << 51) + 3_000_000_000, "{number}");
    }
}
