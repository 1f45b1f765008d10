//! Waiting needs no polling. This test is a file of its own, because it counts its process's
//! context switches.

#![cfg(unix)]

#[path = "common/support.rs"]
mod support;

use std::fs;
use std::thread;
use std::time::Duration;

use support::{Dir, is_ready, join, ticket};
use tenure_core::event::Scope;
use tenure_core::{Engine as _, TicketState};

#[test]
fn waiting_costs_no_time_of_any_processor() {
    let dir = Dir::new();
    let (store, other) = (dir.open(), dir.open());
    let (held, mine) = (ticket("k"), ticket("k"));
    join(&other, &held);
    join(&store, &mine);
    let mut watch = Box::pin(store.watch(&mine, TicketState::Waiting));
    assert!(is_ready(&mut watch).is_none());
    let scope = Scope::Prefix(String::new());
    let start = support::block_on(other.events(&scope, None)).unwrap();
    let mut events = Box::pin(other.events(&scope, Some(start.cursor)));
    assert!(is_ready(&mut events).is_none());
    let Some(_starting) = switches() else {
        eprintln!("SKIPPED: this system does not tell how often a thread was woken");
        return;
    };
    // A thread that has just been started goes to sleep once; one that polls goes on and on.
    let mut before = switches().unwrap();
    for _ in 0..10 {
        thread::sleep(Duration::from_secs(2));
        let now = switches().unwrap();
        if now == before {
            return;
        }
        before = now;
    }
    panic!("a thread of the engine is woken again and again");
}

/// Returns how often the engine's threads were woken, if the system reports it.
fn switches() -> Option<u64> {
    let mut count = 0;
    for task in fs::read_dir("/proc/self/task").ok()? {
        let status = fs::read_to_string(task.ok()?.path().join("status")).unwrap_or_default();
        if status.lines().next().is_some_and(|name| name.contains("tenure-file-")) {
            let line = status.lines().find(|line| line.starts_with("voluntary"))?;
            count += line.split_whitespace().last()?.parse::<u64>().ok()?;
        }
    }
    Some(count)
}
