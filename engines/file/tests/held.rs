//! Another process keeps a file of the store locked.

#![cfg(unix)]

#[path = "common/support.rs"]
mod support;

use std::fs;
use std::future::Future;
use std::path::Path;
use std::thread;
use std::time::Instant;

use support::{Dir, Other, block_on, join, key, leave, serve, ticket};
use tenure_core::{Engine as _, Error, ErrorKind, LeaveMode, LeaveOutcome, WaitMode};
use tenure_file::FileStore;

/// Not a test: the other processes run it.
#[test]
fn helper() {
    serve();
}

/// Starts a process that locks a file. All it does to the store of the test is that.
fn locker(elsewhere: &Dir, file: &Path) -> Other {
    let mut other = Other::start(elsewhere);
    other.ask(&format!("lock {}", file.display()));
    other
}

/// The same, and stops the process.
fn stopped_locker(elsewhere: &Dir, file: &Path) -> Other {
    let other = locker(elsewhere, file);
    other.signal("-STOP");
    other
}

fn assert_stopped(other: &Other, error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let (text, process) = (error.to_string(), format!("process {} (", other.child.id()));
    let is_told = text.contains(&process) && text.contains("which is stopped: continue or end it");
    assert!(is_told || !cfg!(target_os = "linux"), "{text}");
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
    assert_stopped(other, &error);
}

#[test]
fn every_verb_answers_in_time_and_names_the_stopped_process_that_keeps_a_book_locked() {
    let dir = Dir::new();
    let (elsewhere, store) = (Dir::new(), dir.open());
    let mine = ticket("k");
    join(&store, &mine);
    let other = stopped_locker(&elsewhere, &dir.book("k"));
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
    let other = stopped_locker(&elsewhere, &dir.book("k"));
    let tickets: Vec<_> = (0..100).map(|_| ticket("k")).collect();
    let mut joins: Vec<_> =
        tickets.iter().map(|ticket| Box::pin(store.join(ticket, WaitMode::Wait))).collect();
    assert!(joins.iter_mut().all(|join| support::is_ready(join).is_none()));
    let began = Instant::now();
    for join in joins {
        assert_stopped(&other, &block_on(join).unwrap_err());
    }
    assert!(began.elapsed() <= store.guarantees().answers_within, "it took {:?}", began.elapsed());
}

#[test]
fn a_store_is_opened_in_time_whatever_others_have_locked() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    drop(dir.open());
    let mark = dir.path().join("store");
    let other = stopped_locker(&elsewhere, &mark);
    let within = dir.open().guarantees().answers_within;
    fs::write(&mark, "").unwrap();
    let began = Instant::now();
    let error = FileStore::open(dir.path()).unwrap_err();
    assert!(began.elapsed() <= within, "it took {:?}", began.elapsed());
    assert_stopped(&other, &error);
}

/// Returns once a verb on another store was refused because of a stopped process: callers that wait
/// since before have waited for longer than that.
#[cfg(target_os = "linux")]
fn refuse_meanwhile() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let store = dir.open();
    let other = stopped_locker(&elsewhere, &dir.book("k"));
    refused(&store, &other, store.join(&ticket("k"), WaitMode::NoWait));
}

#[test]
#[cfg(target_os = "linux")]
fn forty_callers_wait_longer_for_a_process_that_runs_than_for_a_stopped_one() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let store = dir.open();
    let mut slow = locker(&elsewhere, &dir.book("k"));
    let tickets: Vec<_> = (0..40).map(|_| ticket("k")).collect();
    let mut joins: Vec<_> =
        tickets.iter().map(|ticket| Box::pin(store.join(ticket, WaitMode::Wait))).collect();
    assert!(joins.iter_mut().all(|join| support::is_ready(join).is_none()));
    refuse_meanwhile();
    assert!(joins.iter_mut().all(|join| support::is_ready(join).is_none()), "one gave up");
    slow.ask("unlock");
    for join in joins {
        block_on(join).unwrap().expect("it is in the line");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_is_stopped_later_is_waited_for_no_longer() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let store = dir.open();
    let slow = locker(&elsewhere, &dir.book("k"));
    let waits = ticket("k");
    let mut join = Box::pin(store.join(&waits, WaitMode::Wait));
    assert!(support::is_ready(&mut join).is_none());
    refuse_meanwhile();
    assert!(support::is_ready(&mut join).is_none(), "it gave up");
    slow.signal("-STOP");
    assert_stopped(&slow, &block_on(join).unwrap_err());
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_that_never_unlocks_a_book_is_named_in_time() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let store = dir.open();
    let hangs = locker(&elsewhere, &dir.book("k"));
    let began = Instant::now();
    let error = block_on(store.join(&ticket("k"), WaitMode::Wait)).unwrap_err();
    assert!(began.elapsed() <= store.guarantees().answers_within, "it took {:?}", began.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let (text, process) = (error.to_string(), format!("process {} (", hangs.child.id()));
    assert!(text.contains(&process) && text.contains("which is busy and not stopped"), "{text}");
}

/// Opens a store eight times at once, while a process that runs has its mark locked. `then` ends
/// the wait; it gets the mark, its text and that process.
#[cfg(target_os = "linux")]
fn eight_open(then: impl FnOnce(&Path, &str, &mut Other)) {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    drop(dir.open());
    let mark = dir.path().join("store");
    let mut slow = locker(&elsewhere, &mark);
    let text = fs::read_to_string(&mark).unwrap();
    fs::write(&mark, "").unwrap();
    thread::scope(|scope| {
        let open = || FileStore::open(dir.path()).map(drop);
        let opened: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        refuse_meanwhile();
        assert!(opened.iter().all(|opened| !opened.is_finished()), "one gave up");
        then(&mark, &text, &mut slow);
        for opened in opened {
            opened.join().unwrap().unwrap();
        }
    });
}

#[test]
#[cfg(target_os = "linux")]
fn eight_open_a_store_beside_a_process_that_is_slow_to_make_it() {
    eight_open(|_, _, slow| {
        slow.ask("unlock");
    });
}

#[test]
#[cfg(target_os = "linux")]
fn eight_open_a_store_once_it_is_made_though_its_maker_keeps_it_locked() {
    eight_open(|mark, text, _| fs::write(mark, text).unwrap());
}
