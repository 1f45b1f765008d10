//! Another process keeps a file of the store locked.

#![cfg(unix)]

#[path = "common/support.rs"]
mod support;

use std::fs;
use std::future::Future;
use std::time::Instant;

use support::{Dir, Other, block_on, join, key, leave, serve, ticket};
use tenure_core::{Engine as _, Error, ErrorKind, LeaveMode, LeaveOutcome, WaitMode};
use tenure_file::FileStore;

/// Not a test: the other processes run it.
#[test]
fn helper() {
    serve();
}

/// Asserts that a verb fails in time with an error that names the process that has the lock.
fn refused<T: std::fmt::Debug>(
    store: &FileStore,
    other: &Other,
    verb: impl Future<Output = Result<T, Error>>,
) {
    let began = Instant::now();
    let error = block_on(verb).unwrap_err();
    assert!(began.elapsed() <= store.guarantees().answers_within, "it took {:?}", began.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let who = format!("process {} (", other.child.id());
    assert!(!cfg!(target_os = "linux") || error.to_string().contains(&who), "{error}");
}

#[test]
fn every_verb_answers_in_time_and_names_who_keeps_a_book_locked() {
    let dir = Dir::new();
    let (elsewhere, store) = (Dir::new(), dir.open());
    let mine = ticket("k");
    join(&store, &mine);
    // It has a store of its own: all it does to this one is to lock a file.
    let mut other = Other::start(&elsewhere);
    other.ask(&format!("lock {}", dir.book("k").display()));
    refused(&store, &other, store.join(&ticket("k"), WaitMode::NoWait));
    refused(&store, &other, store.join(&ticket("k"), WaitMode::Wait));
    refused(&store, &other, store.renew(&mine));
    refused(&store, &other, store.leave(&mine, LeaveMode::Now));
    refused(&store, &other, store.line(&key("k")));
    refused(&store, &other, store.keys(""));
    refused(&store, &other, store.add(&key("k"), 1, None));
    let fresh = dir.open();
    refused(&fresh, &other, fresh.join(&ticket("k"), WaitMode::NoWait));
    other.kill();
    assert_eq!(block_on(store.line(&key("k"))).unwrap().len(), 1, "nothing came of it later");
    assert_eq!(leave(&store, &mine), LeaveOutcome::Holding);
}

#[test]
fn many_who_wait_for_one_book_are_answered_within_the_same_time() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let store = dir.open();
    let mut other = Other::start(&elsewhere);
    other.ask(&format!("lock {}", dir.book("k").display()));
    let tickets: Vec<_> = (0..100).map(|_| ticket("k")).collect();
    let mut joins: Vec<_> =
        tickets.iter().map(|ticket| Box::pin(store.join(ticket, WaitMode::Wait))).collect();
    assert!(joins.iter_mut().all(|join| support::is_ready(join).is_none()));
    let began = Instant::now();
    for join in joins {
        assert_eq!(block_on(join).unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert!(began.elapsed() <= store.guarantees().answers_within, "it took {:?}", began.elapsed());
}

#[test]
fn a_store_is_opened_in_time_whatever_others_have_locked() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    drop(dir.open());
    let mark = dir.path().join("store");
    let mut other = Other::start(&elsewhere);
    other.ask(&format!("lock {}", mark.display()));
    let within = dir.open().guarantees().answers_within;
    fs::write(&mark, "").unwrap();
    let began = Instant::now();
    let error = FileStore::open(dir.path()).unwrap_err();
    assert!(began.elapsed() <= within, "it took {:?}", began.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("store is kept locked by process"), "{error}");
}
