//! Background threads and tasks end.
#![cfg(target_os = "linux")]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tenure_core::blocking::block_on;
use tenure_core::{BackgroundRuntime, BoxFuture, Clock, Locks, Memory, Runtime, Time};

/// The runtimes of this process.
fn hosts() -> usize {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name == "tenure\n").count()
}

/// Waits until there are `count`. A new thread gets its name a moment after its start.
fn has_hosts(count: usize) {
    let began = Instant::now();
    while hosts() != count {
        assert!(began.elapsed() < Duration::from_secs(60), "{} hosts, not {count}", hosts());
        thread::sleep(Duration::from_millis(10));
    }
}

/// A host that counts its timers.
struct Counting {
    host: BackgroundRuntime,
    sleeps: AtomicU64,
}

impl Clock for Counting {
    fn now(&self) -> Time {
        self.host.now()
    }

    fn wall_us(&self) -> u64 {
        self.host.wall_us()
    }
}

impl Runtime for Counting {
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        self.host.sleep(duration)
    }

    fn random(&self) -> u64 {
        self.host.random()
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.host.spawn(task);
    }
}

/// One test, because the threads of a process are counted.
#[test]
fn a_lock_that_is_held_costs_little_and_when_all_is_dropped_nothing_is_left() {
    assert_eq!(hosts(), 0);
    let host = Counting { host: BackgroundRuntime::for_timers(), sleeps: AtomicU64::new(0) };
    let host = Arc::new(host);
    let locks = Locks::on(Memory::new(), host.clone());
    let lock = || locks.mutex("k").ttl(Duration::from_secs(9));
    let guard = block_on(lock().lock()).unwrap();
    let other = block_on(locks.mutex("other").lock()).unwrap();
    has_hosts(1);
    block_on(async {
        host.sleep(Duration::from_secs(4)).await;
        assert!(guard.check().is_ok(), "it is renewed");
        guard.release().await.unwrap();
    });
    // A renewal with its time limit, and naps of a second.
    let sleeps = host.sleeps.load(Ordering::Relaxed);
    assert!(sleeps < 40, "{sleeps} timers within four seconds");
    // A guard that is dropped is given back by the host, which ends after that.
    drop(other);
    drop((locks, host));
    has_hosts(0);
}
