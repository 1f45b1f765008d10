//! Memory: the cost of the public API, the guard and the renewals without a store.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::blocking::block_on;
use tenure_core::{Locks, Memory, MutexGuard};

use crate::figures::{Table, median, median_of, us};
use crate::processor;

pub(crate) fn run(table: &mut Table) {
    free(table);
    hand_over(table);
    many_held(table);
}

fn free(table: &mut Table) {
    let locks = Locks::new(Memory::new());
    let mutex = locks.mutex("invoices/42");
    let time = median_of(301, 1000, || {
        block_on(async { mutex.lock().await.unwrap().release().await.unwrap() });
    });
    table.row("memory: lock + release", us(time), "–", "≤ 3 µs");
}

/// Measures a hand-over in a chain of waiters. The mutex beside it shows the cost of the waiters'
/// own memory once it exceeds the cache.
fn hand_over(table: &mut Table) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for waiters in [10, 100, 1_000, 10_000] {
        let rounds = 20_000 / waiters + 5;
        let mut ours: Vec<Duration> =
            (0..rounds).map(|_| runtime.block_on(chain(waiters)) / waiters).collect();
        let mut floor: Vec<Duration> =
            (0..rounds).map(|_| runtime.block_on(plain_chain(waiters)) / waiters).collect();
        table.row(
            format!("memory: hand-over, {waiters} waiters"),
            us(median(&mut ours)),
            format!("{} for `tokio::sync::Mutex`", us(median(&mut floor))),
            "the same for all",
        );
    }
}

async fn plain_chain(waiters: u32) -> Duration {
    let mutex = Arc::new(tokio::sync::Mutex::new(()));
    let first = mutex.clone().lock_owned().await;
    let tasks: Vec<_> = (0..waiters)
        .map(|_| {
            let mutex = mutex.clone();
            tokio::spawn(async move { drop(mutex.lock_owned().await) })
        })
        .collect();
    for _ in 0..waiters {
        tokio::task::yield_now().await;
    }
    let start = Instant::now();
    drop(first);
    for task in tasks {
        task.await.unwrap();
    }
    start.elapsed()
}

async fn chain(waiters: u32) -> Duration {
    let locks = Locks::new(Memory::new());
    let first = locks.mutex("k").lock().await.unwrap();
    let tasks: Vec<_> = (0..waiters)
        .map(|_| {
            let mutex = locks.mutex("k");
            tokio::spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() })
        })
        .collect();
    while locks.line("k").await.unwrap().len() <= waiters as usize {
        tokio::task::yield_now().await;
    }
    let start = Instant::now();
    first.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    start.elapsed()
}

fn many_held(table: &mut Table) {
    const HELD: u32 = 100_000;
    let locks = Locks::new(Memory::new());
    let before = resident();
    let guards: Vec<MutexGuard> = (0..HELD)
        .map(|key| block_on(locks.mutex(format!("orders/{key:08}")).lock()).unwrap())
        .collect();
    let bytes = (resident() - before) / u64::from(HELD);
    table.row("memory: one of 100,000 held locks", format!("{bytes} bytes"), "–", "< 1024 bytes");
    let used = processor::own();
    let watched = Duration::from_secs(20);
    std::thread::sleep(watched);
    let share = processor::own().saturating_sub(used).as_secs_f64() / watched.as_secs_f64() * 100.0;
    assert!(guards.iter().all(|guard| guard.check().is_ok()), "all guards are still valid");
    table.row("memory: renewing 100,000 locks", format!("{share:.2} % of a core"), "–", "< 5 %");
    for guard in guards {
        block_on(guard.release()).unwrap();
    }
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
