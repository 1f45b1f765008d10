//! Damaged stores, and the errors that report the damage.

#![cfg(unix)]

#[path = "common/support.rs"]
mod support;

use std::fs;
use std::path::PathBuf;

use support::{Dir, Other, block_on, join, key, leave, serve, ticket, work};
use tenure_core::{Engine as _, ErrorKind, LeaveOutcome, Loss, TicketState, WaitMode, Wake};
use tenure_file::FileStore;

/// Not a test: the other processes run it.
#[test]
fn helper() {
    serve();
}

#[test]
fn garbage_is_set_aside_and_the_store_goes_on_if_nobody_else_lives() {
    let dir = Dir::new();
    let number = {
        let store = dir.open();
        let mine = ticket("k");
        let number = join(&store, &mine).number;
        assert!(block_on(store.add(&key("k"), 5, None)).unwrap().allowed);
        number
    };
    let whole = fs::read(dir.book("k")).unwrap();
    let mut flipped = whole.clone();
    flipped[100] ^= 1;
    let mut behind = whole.clone();
    behind.extend_from_slice(b"twenty bytes at least");
    for garbage in [&b""[..], &whole[..40], b"garbage", &flipped, &behind] {
        fs::write(dir.book("k"), garbage).unwrap();
        let store = dir.open();
        let mine = ticket("k");
        assert!(join(&store, &mine).number > number);
        let fresh = block_on(store.add(&key("k"), 1, None)).unwrap().value;
        assert!(fresh > 5, "{fresh} may have been given before");
        leave(&store, &mine);
    }
    let aside: Vec<_> = set_aside(&dir).iter().map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(aside, [&b""[..], &whole[..40], b"garbage", &flipped, &behind]);
}

fn set_aside(dir: &Dir) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut aside: Vec<_> = entries.filter(|path| name(path).starts_with("damaged-")).collect();
    aside.sort_by_key(|path| name(path)[11..].parse::<u64>().unwrap());
    aside
}

#[test]
fn nobody_joins_a_damaged_book_while_those_live_who_may_hold_something() {
    for damage in [
        |book: PathBuf| fs::write(book, "garbage").unwrap(),
        |book: PathBuf| {
            fs::remove_file(book).unwrap();
        },
    ] {
        let dir = Dir::new();
        let mut other = Other::start(&dir);
        other.ask("join k");
        damage(dir.book("k"));
        let store = dir.open();
        let error = block_on(store.join(&ticket("k"), WaitMode::Wait)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        let sentence = error.to_string();
        assert!(sentence.contains(&format!("process {} ", other.child.id())), "{sentence}");
        let later = dir.open();
        assert!(
            block_on(later.join(&ticket("k"), WaitMode::NoWait)).is_err(),
            "it is written down"
        );
        for aside in set_aside(&dir) {
            assert!(sentence.contains(aside.to_str().unwrap()), "{sentence}");
        }
        other.kill();
        join(&store, &ticket("k"));
    }
}

#[test]
fn a_holder_whose_store_is_removed_hears_so() {
    let dir = Dir::new();
    let store = dir.open();
    let mine = ticket("k");
    join(&store, &mine);
    fs::remove_dir_all(dir.path()).unwrap();
    let error = block_on(store.renew(&mine)).unwrap_err();
    assert_eq!(error.loss(), Some(Loss::SessionGone));
    assert_eq!(
        block_on(store.watch(&mine, TicketState::Holding)).unwrap_or(Wake::Look),
        Wake::Look
    );
    for name in ["k", "other"] {
        let error = block_on(store.join(&ticket(name), WaitMode::Wait)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(
            error.to_string().contains("was removed or moved away while it was in use"),
            "{error}"
        );
    }
    assert_eq!(leave(&store, &mine), LeaveOutcome::Absent);
    assert!(!dir.path().exists(), "nothing is made again for old tickets");
    let anew = dir.open();
    assert!(block_on(store.renew(&mine)).is_err());
    join(&anew, &mine);
}

#[test]
fn what_cannot_be_a_store_is_refused_with_the_way_out() {
    let dir = Dir::new();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = FileStore::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.to_string().contains("is a file and no directory"), "{error}");
    }
    let error = FileStore::open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("not empty (file is in it)"), "{error}");
    FileStore::open(dir.path().join("made/with/parents")).unwrap();
    fs::write(dir.path().join("made/store"), "").unwrap();
    fs::write(dir.path().join("made/store"), "form 2").unwrap();
    let error = FileStore::open(dir.path().join("made")).unwrap_err();
    assert!(error.to_string().contains("another version"), "{error}");
}

#[test]
fn a_directory_that_cannot_be_written_to_is_refused() {
    // Permission bits do not bind root, but no user can write here.
    if cfg!(target_os = "linux") {
        let error = FileStore::open("/proc/self/store").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.to_string().contains("/proc/self/store"), "{error}");
    }
}

#[test]
fn a_store_is_opened_by_its_url() {
    let dir = Dir::new();
    let url = format!("file://{}/a%20b", dir.path().display());
    drop(tenure_file::connect(&url).unwrap());
    assert!(dir.path().join("a b/store").exists());
    let error = tenure_file::connect(&format!("{url}?x=1")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_holder_whose_store_is_moved_away_hears_so() {
    let dir = Dir::new();
    let place = dir.path().join("place");
    let store = FileStore::open(&place).unwrap();
    let mine = ticket("k");
    join(&store, &mine);
    fs::rename(&place, dir.path().join("moved")).unwrap();
    let error = block_on(store.renew(&mine)).unwrap_err();
    assert_eq!(error.loss(), Some(Loss::SessionGone));
    let anew = FileStore::open(&place).unwrap();
    join(&anew, &mine);
    assert!(block_on(store.renew(&mine)).is_err(), "another store has its place now");
    assert!(block_on(store.join(&ticket("other"), WaitMode::Wait)).is_err());
}

#[test]
fn a_sequence_gives_no_number_twice_however_many_find_the_damage() {
    let dir = Dir::new();
    let book = dir.book("invoice");
    let mut given = Vec::new();
    for turn in 0..10 {
        let mut others: Vec<_> = (0..4).map(|_| Other::start(&dir)).collect();
        given.push(others[0].ask("next invoice").parse::<u64>().unwrap());
        let whole = fs::read(&book).unwrap();
        let mut damaged = whole.clone();
        // The header, the last record, or everything.
        match turn % 3 {
            0 => damaged[20] ^= 1,
            1 => *damaged.last_mut().unwrap() ^= 1,
            _ => damaged.fill(b'x'),
        }
        fs::write(&book, damaged).unwrap();
        for other in &mut others {
            other.tell("many invoice 50");
        }
        for other in &mut others {
            let answer = other.answer();
            given.extend(answer.split(' ').map(|number| number.parse::<u64>().unwrap()));
        }
    }
    let count = given.len();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), count, "a number was given twice");
    assert_eq!(set_aside(&dir).len(), 10, "who comes second finds the first one's good book");
}

#[test]
fn a_sequence_goes_on_above_what_a_damaged_book_still_tells() {
    let dir = Dir::new();
    let far = 1 << 52;
    assert_eq!(block_on(dir.open().add(&key("k"), far, None)).unwrap().value, far);
    let mut bytes = fs::read(dir.book("k")).unwrap();
    bytes.extend_from_slice(b"garbage, longer than a head");
    fs::write(dir.book("k"), bytes).unwrap();
    assert_eq!(block_on(dir.open().add(&key("k"), 1, None)).unwrap().value, far + 1);
}

#[test]
fn a_sequence_goes_on_above_a_number_that_stands_behind_the_damage() {
    let dir = Dir::new();
    let (book, far) = (dir.book("k"), 1 << 52);
    let add = |by| block_on(dir.open().add(&key("k"), by, None)).unwrap().value;
    assert_eq!(add(1), 1);
    let end_of_first = fs::read(&book).unwrap().len();
    assert_eq!(add(far - 1), far);
    let mut bytes = fs::read(&book).unwrap();
    bytes[end_of_first - 1] ^= 1;
    fs::write(&book, bytes).unwrap();
    assert_eq!(add(1), far + 1);
}

#[test]
fn an_old_copy_of_a_book_is_set_aside_and_not_read_for_ever() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let (book, backup) = (dir.book("k"), elsewhere.path().join("backup"));
    let last = {
        let store = dir.open();
        let last = block_on(store.add(&key("k"), 5, None)).unwrap().value;
        fs::hard_link(&book, &backup).unwrap();
        work(&store, "k", 8000);
        last + block_on(store.add(&key("k"), 5, None)).unwrap().value
    };
    fs::copy(&backup, &book).unwrap();
    let store = dir.open();
    join(&store, &ticket("k"));
    assert!(block_on(store.add(&key("k"), 1, None)).unwrap().value > last);
    assert_eq!(set_aside(&dir).len(), 1);
}

#[test]
fn a_mark_of_zeros_and_a_missing_folder_are_mended() {
    let dir = Dir::new();
    let mark = dir.path().join("store");
    let number = join(&dir.open(), &ticket("k")).number;
    let whole = fs::read(&mark).unwrap();
    for left in [vec![0; whole.len()], vec![0; 4096], Vec::new(), whole[..10].to_vec()] {
        fs::write(&mark, left).unwrap();
        assert!(join(&dir.open(), &ticket("k")).number > number);
        assert_eq!(fs::read(&mark).unwrap(), whole);
    }
    for folder in ["books", "sessions"] {
        fs::remove_dir_all(dir.path().join(folder)).unwrap();
        let again = join(&dir.open(), &ticket("k")).number;
        assert!(again > number, "{again} after {folder} was removed");
    }
    let mut other = Other::start(&dir);
    other.ask("join k");
    fs::remove_dir_all(dir.path().join("books")).unwrap();
    let error = block_on(dir.open().join(&ticket("k"), WaitMode::Wait)).unwrap_err();
    let who = format!("process {} ", other.child.id());
    assert!(error.to_string().contains(&who), "{error}");
    other.kill();
}

#[test]
fn a_full_disk_is_not_filled_further_with_what_is_set_aside() {
    let dir = Dir::new();
    let book = dir.book("k").file_name().unwrap().to_str().unwrap().to_owned();
    let Some(mut other) = Other::start_on_a_small_disk(&dir, 300) else {
        eprintln!("SKIPPED: this user cannot mount a small disk");
        return;
    };
    let answer = other.ask(&format!("damage {book}"));
    assert_eq!(answer, "0 refused, 1 joined");
    other.end();
}
