//! Threads end with the stores that they work for. A test by itself, for it counts those of its
//! process.

#![cfg(target_os = "linux")]

#[path = "common/support.rs"]
mod support;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use support::{Dir, is_ready, join, leave, ticket};
use tenure_core::event::Scope;
use tenure_core::{Engine as _, TicketState};

#[test]
fn no_thread_is_left_of_stores_that_waited() {
    let dir = Dir::new();
    let holder = dir.open();
    let held = ticket("k");
    join(&holder, &held);
    for turn in 0..200 {
        let store = dir.open();
        let mine = ticket("k");
        assert_eq!(join(&store, &mine).state, TicketState::Waiting);
        let mut watch = Box::pin(store.watch(&mine, TicketState::Waiting));
        assert!(is_ready(&mut watch).is_none());
        let scope = Scope::Prefix(String::new());
        let start = support::block_on(store.events(&scope, None)).unwrap();
        let mut events = Box::pin(store.events(&scope, Some(start.cursor)));
        assert!(is_ready(&mut events).is_none());
        if turn % 2 == 0 {
            // The waiters are notified at the moment at which this client goes.
            leave(&store, &mine);
        }
    }
    become_as_many(0);
    let waiting: Vec<_> = (0..20).map(|_| (dir.open(), ticket("k"))).collect();
    for (store, mine) in &waiting {
        join(store, mine);
    }
    // Each client has a thread that reads its FIFO, and all share one thread that watches for
    // deaths.
    become_as_many(waiting.len() + 1);
}

/// Waits until there are `wanted` threads. Threads start and end with a delay.
fn become_as_many(wanted: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while threads() != wanted {
        assert!(Instant::now() < deadline, "there are {} threads, not {wanted}", threads());
        thread::yield_now();
    }
}

/// Returns the number of the engine's threads.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let names = tasks.map(|task| fs::read_to_string(task.path().join("comm")).unwrap_or_default());
    names.filter(|name| name.starts_with("tenure-file-")).count()
}
