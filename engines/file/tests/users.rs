//! Other users: users who share a store, users who only read, and attackers.

#![cfg(unix)]

#[path = "common/support.rs"]
mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use support::{Dir, Other, block_on, join, key, leave, serve, ticket, work};
use tenure_core::{Engine as _, ErrorKind, TicketState};
use tenure_file::{FileStore, Settings};

/// Two users and a group that do not exist on the machine.
const ALICE: u32 = 61_001;
const BOB: u32 = 61_002;
const GROUP: u32 = 61_003;

/// Not a test: the other processes run it.
#[test]
fn helper() {
    serve();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Returns a directory of this user and that group, if this process is root.
fn dir_of(user: u32, group: u32, mode: u32) -> Option<Dir> {
    let dir = Dir::new();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
    let given = chown(dir.path(), Some(user), Some(group));
    if given.is_err() {
        eprintln!("SKIPPED: only root can be several users");
    }
    given.is_ok().then_some(dir)
}

#[test]
fn a_new_store_is_for_its_user_alone() {
    let dir = Dir::new();
    let path = dir.path().join("new");
    drop(FileStore::open(&path).unwrap());
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("store")), 0o600);
    assert_eq!(mode(&path.join("books/00")), 0o600);
}

#[test]
fn a_file_that_cannot_be_written_cannot_be_read_either() {
    let dir = Dir::new();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let store = dir.open();
    join(&store, &ticket("k"));
    for folder in ["books", "sessions"] {
        for entry in fs::read_dir(dir.path().join(folder)).unwrap() {
            assert_eq!(mode(&entry.unwrap().path()), 0o600, "who may read it may lock it");
        }
    }
    let book = dir.book("k");
    fs::set_permissions(&book, fs::Permissions::from_mode(0o644)).unwrap();
    join(&dir.open(), &ticket("k"));
    assert_eq!(mode(&book), 0o600, "an older version left it to be read by all");
}

#[test]
fn a_group_shares_a_store_whatever_the_umask_of_its_members_is() {
    let Some(dir) = dir_of(0, GROUP, 0o2770) else { return };
    let mut alice = Other::start_as(&dir, ALICE, GROUP).unwrap();
    let mut bob = Other::start_as(&dir, BOB, GROUP).unwrap();
    assert!(alice.ask("join k").starts_with("Holding"));
    assert!(bob.ask("join k").starts_with("Waiting"));
    bob.tell("wait");
    alice.kill();
    bob.answer();
    assert_eq!(bob.ask("leave"), "Holding");
    bob.ask("work k 8000");
    bob.end();
    let mut alice = Other::start_as(&dir, ALICE, GROUP).unwrap();
    assert!(alice.ask("join k").starts_with("Holding"), "bob wrote the book anew");
    alice.end();
}

#[test]
fn work_by_root_leaves_the_store_to_its_owner() {
    let Some(dir) = dir_of(ALICE, ALICE, 0o700) else { return };
    let mut alice = Other::start_as(&dir, ALICE, ALICE).unwrap();
    alice.ask("join k");
    alice.ask("leave");
    alice.end();
    let book = dir.book("k");
    fs::write(book.with_extension("new"), "what somebody else has left").unwrap();
    let root = dir.open();
    let before = fs::metadata(&book).unwrap();
    work(&root, "k", 8000);
    let after = fs::metadata(&book).unwrap();
    assert_ne!(before.ino(), after.ino(), "it was never written anew");
    assert_eq!((after.uid(), after.gid(), after.mode()), (ALICE, ALICE, before.mode()));
    let held = ticket("k");
    join(&root, &held);
    let mut alice = Other::start_as(&dir, ALICE, ALICE).unwrap();
    assert!(alice.ask("join k").starts_with("Waiting"), "root's session can be looked at");
    leave(&root, &held);
    alice.ask("wait");
    alice.end();
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let Some(dir) = dir_of(ALICE, ALICE, 0o700) else { return };
    drop(dir.open());
    let strange = dir.path().join("sessions/0123456789abcdef0123456789abcdef");
    Command::new("mkfifo").arg(&strange).status().unwrap();
    let (opened, open) = mpsc::channel();
    let path = dir.path().to_owned();
    thread::spawn(move || opened.send(FileStore::open(path)).unwrap());
    let store = open.recv().unwrap().unwrap();
    let within = store.guarantees().answers_within;
    let (joined, answer) = mpsc::channel();
    thread::spawn(move || {
        join(&store, &ticket("k"));
        joined.send(store.guarantees().warnings).unwrap();
    });
    let warnings = answer.recv_timeout(within).expect("a FIFO holds nobody up");
    assert!(warnings[0].contains(strange.to_str().unwrap()), "{warnings:?}");
}

#[test]
fn no_link_is_followed() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let private = elsewhere.path().join("private");
    fs::write(&private, "secret").unwrap();
    let book = dir.book("k");
    drop(dir.open());
    for name in ["new", "0.new"] {
        symlink(&private, book.with_extension(name)).unwrap();
    }
    let inode = fs::metadata(&book).unwrap().ino();
    work(&dir.open(), "k", 8000);
    assert_ne!(fs::metadata(&book).unwrap().ino(), inode, "it was never written anew");
    for link in [&book, &dir.path().join("store")] {
        fs::remove_file(link).unwrap();
        symlink(&private, link).unwrap();
        let joined = FileStore::open(dir.path())
            .and_then(|store| block_on(store.join(&ticket("k"), tenure_core::WaitMode::Wait)));
        let error = joined.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.to_string().contains("it is a link"), "{error}");
    }
    assert_eq!(fs::read_to_string(&private).unwrap(), "secret");
}

#[test]
fn a_store_that_others_own_or_may_write_to_is_refused_with_the_way_out() {
    let Some(dir) = dir_of(ALICE, ALICE, 0o755) else { return };
    let mut bob = Other::start_as(&dir, BOB, BOB).unwrap();
    let refused = bob.answer();
    assert!(refused.contains("belongs to another user (61001)"), "{refused}");
    assert!(refused.contains("others=allow"), "{refused}");
    let open = Dir::new();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let error = FileStore::open(open.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(error.to_string().contains("can be written to by everybody"), "{error}");
    let settings = Settings { allow_others: true, ..Settings::default() };
    let store = FileStore::open_with(open.path(), settings).unwrap();
    assert_eq!(join(&store, &ticket("k")).state, TicketState::Holding);
    assert_eq!(block_on(store.line(&key("k"))).unwrap().len(), 1);
}
