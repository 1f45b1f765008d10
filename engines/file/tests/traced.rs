//! The system calls of a process, and the state that is left when it is killed at one of them.

#![cfg(target_os = "linux")]

#[path = "common/support.rs"]
mod support;

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use support::{Dir, Other, block_on, join, key, serve, skipped, ticket, work};
use tenure_core::{Engine as _, TicketState};

/// Not a test: the other processes run it.
#[test]
fn helper() {
    serve();
}

/// Returns the number of the first write after the book's new file got its name, in a trace of all
/// calls.
fn write_after_the_new_name(trace: &Path, book: &str) -> Option<usize> {
    let trace = std::fs::read_to_string(trace).unwrap();
    let mut writes = 0;
    let mut named = false;
    for line in trace.lines().filter(|line| !line.contains("resumed")) {
        named |=
            line.contains("rename") && line.contains(&format!("{book}.")) && line.contains("new");
        if line.contains("pwrite64(") {
            writes += 1;
            if named {
                return Some(writes);
            }
        }
    }
    None
}

#[test]
fn who_has_an_old_book_open_sees_it_replaced_though_its_writer_was_killed_before_saying_so() {
    let elsewhere = Dir::new();
    let trace = elsewhere.path().join("trace");
    let mut kill = None;
    // The first one goes on; the second is killed at the call that the first one's trace shows.
    for _ in 0..2 {
        let dir = Dir::new();
        let book = dir.book("k");
        let store = dir.open();
        work(&store, "k", 10);
        std::fs::hard_link(&book, elsewhere.path().join(format!("backup {}", kill.is_some())))
            .unwrap();
        let inject = kill.map(|at: usize| format!("inject=pwrite64:signal=KILL:when={at}"));
        let calls = ["-e", "trace=rename,renameat,renameat2,pwrite64", "-e"];
        let calls = [&calls[..], &[inject.as_deref().unwrap_or("signal=none")]].concat();
        let Some(mut other) = Other::start_traced(&dir, &trace, &calls) else {
            skipped("there is no strace here");
            return;
        };
        other.tell("work k 8000");
        let killed = other.last_answer().is_none();
        assert_eq!(killed, kill.is_some());
        drop(other);
        let name = book.file_name().unwrap().to_str().unwrap();
        kill = write_after_the_new_name(&trace, name);
        if killed {
            let (late, early) = (dir.open(), ticket("k"));
            assert_eq!(join(&late, &early).state, TicketState::Holding);
            let place = join(&store, &ticket("k"));
            assert_eq!(place.state, TicketState::Waiting, "there are two holders");
            return;
        }
    }
    panic!("nobody was killed");
}

#[test]
fn a_replaced_book_is_closed_after_its_lock_is_given_back() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let trace = elsewhere.path().join("trace");
    let book = dir.book("k");
    drop(dir.open());
    let calls = ["-e", "trace=renameat,flock,close"];
    let Some(mut other) = Other::start_traced(&dir, &trace, &calls) else {
        skipped("there is no strace here");
        return;
    };
    other.ask("work k 8000");
    other.end();
    let trace = std::fs::read_to_string(&trace).unwrap();
    let name = book.file_name().unwrap().to_str().unwrap();
    let mut lines = trace.lines().skip_while(|line| !line.contains(&format!("\"{name}.")));
    let unlocks = lines.by_ref().filter(|line| line.contains("flock") && line.contains("LOCK_UN"));
    let files: Vec<String> = unlocks.take(2).map(|line| file_of(line, "flock(")).collect();
    assert_ne!(files[0], files[1], "first the old one, so that those who wait for it go on");
    let mut closed =
        lines.filter(|line| line.contains("close(")).map(|line| file_of(line, "close("));
    assert!(closed.any(|file| file == files[0]), "it was closed before");
}

/// Returns the file that a call in a trace is about.
fn file_of(line: &str, call: &str) -> String {
    let (_, rest) = line.split_once(call).unwrap();
    rest.chars().take_while(char::is_ascii_digit).collect()
}

#[test]
fn a_number_of_a_sequence_costs_one_flush_of_the_disk() {
    let (dir, elsewhere) = (Dir::new(), Dir::new());
    let trace = elsewhere.path().join("trace");
    assert_eq!(block_on(dir.open().add(&key("invoice"), 1, None)).unwrap().value, 1);
    let calls = ["-e", "trace=fsync,fdatasync,sync_file_range,syncfs"];
    let Some(mut other) = Other::start_traced(&dir, &trace, &calls) else {
        skipped("there is no strace here");
        return;
    };
    assert_eq!(other.ask("next invoice"), "2");
    assert_eq!(other.ask("next invoice"), "3");
    other.end();
    let trace = std::fs::read_to_string(&trace).unwrap();
    assert_eq!(trace.lines().filter(|line| line.contains("sync")).count(), 2, "{trace}");
}

/// Waits until a traced process is stopped at the chosen call, and returns its id.
fn stopped(trace: &Path) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        let trace = std::fs::read_to_string(trace).unwrap_or_default();
        let mut lines = trace.lines();
        if let Some(line) = lines.find(|line| line.contains("stopped by SIGSTOP")) {
            return line.split(' ').next().unwrap().to_owned();
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("nothing was stopped");
}

/// A process that opens a store removes the sessions of dead processes. A session that is being
/// made looks dead for a moment: its file exists and is not locked yet.
#[test]
fn a_session_that_is_being_born_is_not_swept_away_once_it_has_seen_that_it_is_there() {
    for call in 1..=2 {
        let (dir, elsewhere) = (Dir::new(), Dir::new());
        drop(dir.open());
        let path = dir.path().join("sessions").join("5".repeat(32));
        let born = File::create_new(&path).unwrap();
        let trace = elsewhere.path().join("trace");
        let stop = format!("inject=flock:signal=STOP:when={call}");
        let calls = ["-e", "trace=flock,unlinkat", "-e", &stop];
        let Some(mut other) = Other::start_traced(&dir, &trace, &calls) else {
            skipped("there is no strace here");
            return;
        };
        let sweeper = stopped(&trace);
        let believes = born.try_lock().is_ok() && path.exists();
        assert!(Command::new("kill").args(["-CONT", &sweeper]).status().unwrap().success());
        assert_eq!(other.ask("next k"), "1");
        assert!(!believes || path.exists(), "it was swept away after call {call}");
    }
}
