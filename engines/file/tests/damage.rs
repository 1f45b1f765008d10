//! What may be wrong with a store, and what is said of it.

#![cfg(unix)]

#[path = "common/support.rs"]
mod support;

use std::fs;
use std::path::PathBuf;

use support::{Dir, Other, block_on, join, key, leave, serve, ticket};
use tenure_core::{Engine as _, Kind, Left, Loss, Patience, Standing, Wake};
use tenure_file::FileStore;

/// Not a test: what the other processes run.
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
        assert!(block_on(store.tally(&key("k"), 5, None)).unwrap().allowed);
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
        let fresh = block_on(store.tally(&key("k"), 1, None)).unwrap().value;
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
        other.ask("join k 1 1");
        damage(dir.book("k"));
        let store = dir.open();
        let error = block_on(store.join(&ticket("k"), Patience::Wait)).unwrap_err();
        assert_eq!(error.kind(), Kind::Rejected);
        let sentence = error.to_string();
        assert!(sentence.contains(&format!("process {} ", other.child.id())), "{sentence}");
        let later = dir.open();
        assert!(
            block_on(later.join(&ticket("k"), Patience::NoWait)).is_err(),
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
    assert_eq!(block_on(store.watch(&mine, Standing::Holding)).unwrap_or(Wake::Look), Wake::Look);
    for name in ["k", "other"] {
        let error = block_on(store.join(&ticket(name), Patience::Wait)).unwrap_err();
        assert_eq!(error.kind(), Kind::Rejected);
        assert!(error.to_string().contains("was removed while it was in use"), "{error}");
    }
    assert_eq!(leave(&store, &mine), Left::Absent);
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
        assert_eq!(error.kind(), Kind::Rejected);
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
    // Permission bits do not bind root, but nobody can write here.
    if cfg!(target_os = "linux") {
        let error = FileStore::open("/proc/self/store").unwrap_err();
        assert_eq!(error.kind(), Kind::Rejected);
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
    assert_eq!(error.kind(), Kind::Invalid);
}
