//! A crash at any byte leaves the old state or the new one.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tenure_core::line::Journal;
use tenure_core::{Key, LeaveMode, Note, Owner, Place, Share, Ticket, TicketId, WaitMode};

use crate::log::book::{Book, Found};
use crate::log::draft::Draft;
use crate::log::event_sink::EventSink;
use crate::log::header::{HEADER_BYTES, Header};
use crate::log::record::{OwnerId, Record};
use crate::log::shelf;
use crate::os;

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
        owner: Owner::shortened("owner"),
        note: Note::shortened("note"),
        floor: 0,
    }
}

/// The visible state of a book.
type Shown = (Vec<(Ticket, Place)>, u64);

fn see(book: &Book, key: &Key) -> Shown {
    let line = book.state.rows.get(key).map(crate::log::row::LogRow::list).unwrap_or_default();
    (line, book.state.sequence(key))
}

fn path(dir: &Path) -> PathBuf {
    dir.join(shelf::name(0))
}

fn open(dir: &Path) -> Option<(Book, Found)> {
    let dir = os::dir::Dir::open(dir).unwrap();
    let file = Arc::new(dir.open_file(&shelf::name(0)).unwrap());
    let mut book = Book::open(&file, 0, None).unwrap().ok()?;
    let look = catch_up(&mut book, &dir);
    Some((book, look))
}

fn catch_up(book: &mut Book, dir: &os::dir::Dir) -> Found {
    let (mut journal, mut notices) = (Journal::default(), Vec::new());
    let mut sink = EventSink::new(OwnerId(9), true, 0, &mut journal, &mut notices);
    book.catch_up(dir, &mut sink).unwrap()
}

fn create(dir: &Path, header: Header) {
    let dir = os::dir::Dir::open(dir).unwrap();
    drop(Draft::write(&dir, header, &[], None, false).unwrap().place().unwrap());
}

fn happen(book: &mut Book, record: &Record<'_>) {
    assert!(book.state.replay(record.clone(), 5, &mut |_| {}));
    book.push(record, 5);
}

/// Returns a book with a history: the visible state after each write, and the length of the file
/// then.
fn history(dir: &Path, key: &Key) -> Vec<(u64, Shown)> {
    create(dir, Header::default());
    let (mut book, _) = open(dir).unwrap();
    let tickets = [ticket(key.as_str()), ticket(key.as_str()), ticket(key.as_str())];
    let join = |at: usize| Record::Joined {
        session: OwnerId(at as u128 + 1),
        number: at as u64 + 10,
        ticket: Cow::Borrowed(&tickets[at]),
    };
    let (key_of, id) = (Cow::Borrowed(key), tickets[0].id);
    let writes = [
        vec![join(0)],
        vec![join(1)],
        vec![Record::Sequence { key: key_of.clone(), value: 7 }],
        vec![Record::Left { key: key_of.clone(), id, how: LeaveMode::Graceful }],
        vec![Record::Left { key: key_of.clone(), id, how: LeaveMode::Now }],
        vec![join(2)],
        vec![Record::Gone { session: OwnerId(2) }],
    ];
    let mut seen = vec![(HEADER_BYTES as u64, see(&book, key))];
    for records in writes {
        for record in &records {
            happen(&mut book, record);
        }
        book.write().unwrap();
        seen.push((fs::metadata(path(dir)).unwrap().len(), see(&book, key)));
    }
    seen
}

#[test]
fn a_log_cut_at_any_byte_is_what_it_was_after_some_write() {
    let dir = Dir::new();
    let key = Key::new("k").unwrap();
    let seen = history(&dir.0, &key);
    let path = path(&dir.0);
    let whole = fs::read(&path).unwrap();
    for length in 0..=whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let Some((mut book, look)) = open(&dir.0) else {
            assert!(length < HEADER_BYTES, "no header in {length} bytes");
            continue;
        };
        assert_eq!(look, Found::Current, "cut at {length}");
        let (kept, last) = seen.iter().rfind(|(end, _)| *end <= length as u64).unwrap();
        assert_eq!(see(&book, &key), *last, "cut at {length}");
        assert_eq!(fs::metadata(&path).unwrap().len(), *kept, "the torn end is cut off");
        happen(&mut book, &Record::Sequence { key: Cow::Borrowed(&key), value: 99 });
        book.write().unwrap();
        let (again, look) = open(&dir.0).unwrap();
        assert_eq!((look, again.state.sequence(&key)), (Found::Current, 99), "cut at {length}");
    }
}

#[test]
fn a_flipped_bit_is_damage_wherever_it_is() {
    let dir = Dir::new();
    history(&dir.0, &Key::new("k").unwrap());
    let path = path(&dir.0);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, flipped).unwrap();
        let look = open(&dir.0).map(|(_, look)| look);
        assert!(!matches!(look, Some(Found::Current | Found::Replaced)), "byte {at}: {look:?}");
    }
}

#[test]
fn zeros_behind_the_log_are_what_a_power_cut_leaves() {
    let dir = Dir::new();
    let key = Key::new("k").unwrap();
    let seen = history(&dir.0, &key);
    let path = path(&dir.0);
    let mut longer = fs::read(&path).unwrap();
    longer.extend_from_slice(&[0; 5000]);
    fs::write(&path, longer).unwrap();
    let (book, look) = open(&dir.0).unwrap();
    assert_eq!((look, see(&book, &key)), (Found::Current, seen.last().unwrap().1.clone()));
}

#[test]
fn a_log_that_is_written_anew_says_the_same_and_its_name_tells_that_the_old_one_is_over() {
    let dir = Dir::new();
    let key = Key::new("k").unwrap();
    history(&dir.0, &key);
    let books = os::dir::Dir::open(&dir.0).unwrap();
    let (mut book, _) = open(&dir.0).unwrap();
    let (mut other, _) = open(&dir.0).unwrap();
    // A backup may have linked the file, and the process that rewrites it may die right after the
    // rename.
    let backup = dir.0.join("backup");
    fs::hard_link(path(&dir.0), &backup).unwrap();
    let length = fs::metadata(&backup).unwrap().len();
    let before = see(&book, &key);
    drop(book.rewrite(&books, 50).unwrap());
    let retired = fs::metadata(&backup).unwrap().len();
    fs::File::options().write(true).open(&backup).unwrap().set_len(length).unwrap();
    assert_eq!(see(&book, &key), before);
    let (again, look) = open(&dir.0).unwrap();
    assert_eq!((look, see(&again, &key)), (Found::Current, before));
    assert_eq!(catch_up(&mut other, &books), Found::Replaced);
    assert!(retired > length, "whoever finds the old one under its name later can tell as well");
}

#[test]
fn a_log_that_is_read_anew_has_the_same_lines_and_the_same_floor() {
    let dir = Dir::new();
    let keys: Vec<_> = (0..7).map(|n| Key::new(format!("k{n}")).unwrap()).collect();
    create(&dir.0, Header::default());
    let (mut book, _) = open(&dir.0).unwrap();
    let mut tickets = Vec::new();
    for number in 1..500_u64 {
        let key = &keys[usize::try_from(number % 7).unwrap()];
        let ticket = ticket(key.as_str());
        let (session, cow) = (OwnerId(number.into()), Cow::Borrowed(&ticket));
        happen(&mut book, &Record::Joined { session, number, ticket: cow });
        if number % 5 == 0 {
            let changed =
                Ticket { note: Note::shortened("changed"), floor: number + 1, ..ticket.clone() };
            happen(&mut book, &Record::Changed { ticket: Cow::Owned(changed) });
        }
        tickets.push(ticket);
    }
    for (at, ticket) in tickets.iter().enumerate().filter(|(at, _)| at % 11 != 0) {
        let how = if at % 3 == 0 { LeaveMode::Graceful } else { LeaveMode::Now };
        let (key, id) = (Cow::Borrowed(&ticket.key), ticket.id);
        happen(&mut book, &Record::Left { key, id, how });
    }
    book.write().unwrap();
    let (again, look) = open(&dir.0).unwrap();
    assert_eq!(look, Found::Current);
    let known = |book: &Book| book.state.rows.values().filter(|row| !row.is_empty()).count();
    assert!(known(&book) > 0 && known(&book) == known(&again));
    for key in &keys {
        assert_eq!(see(&again, key), see(&book, key));
    }
    let (floor, _) = book.state.snapshot(5);
    assert_eq!(again.state.snapshot(5).0, floor, "what left was numbered too");
}

#[test]
fn after_a_start_of_the_machine_numbers_are_above_any_that_were_lost() {
    let dir = Dir::new();
    let store = crate::FileStore::open(dir.0.join("store")).unwrap();
    let mine = ticket("k");
    let index = shelf::book_of(&mine.key);
    let books = dir.0.join("store/books");
    create(&books, Header { book: index as u64, boot: 1, floor: 1 << 51, ..Header::default() });
    let haste = os::flock::Haste::Quick;
    let joined = store.store.visit(index, haste, |visit| {
        visit.settle()?;
        let now_us = visit.now_us.max(visit.state().floor + 1);
        visit.change(|state, hear| {
            state.row(&mine.key).join(OwnerId(1), &mine, WaitMode::Wait, now_us, hear)
        })
    });
    let number = joined.unwrap().unwrap().unwrap().number;
    if os::boot::Boot::now() != os::boot::Boot::default() {
        assert!(number > (1 << 51) + 3_000_000_000, "{number}");
    }
}
