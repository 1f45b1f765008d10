//! Many clients want the same locks while servers stop, die and come back. No two hold at once.
#![allow(clippy::missing_panics_doc, reason = "a story that fails panics")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_core::sync::Mutex;
use tenure_core::{ErrorKind, LeaseHandle, Locks, MutexGuard};
use tokio::task::JoinSet;

use crate::fault::stage::{soon, until};

/// Locks that all clients want.
const KEYS: [&str; 3] = ["a", "b", "c"];
/// How long most holders hold.
const HOLD: Duration = Duration::from_millis(50);
/// Every eighth holder of a lock holds for one and a half ttls, and so needs renewals.
const LONG_HOLDS: u64 = 8;
/// Pause between two looks, and between two attempts that failed.
const PAUSE: Duration = Duration::from_millis(10);

/// All clients take and release locks while `trouble` runs. At no moment do two guards of one lock
/// say that they hold it, tokens grow, and each lock is granted again after the trouble.
pub async fn no_two_hold(clients: Vec<Locks>, ttl: Duration, trouble: impl AsyncFnOnce()) {
    let referee = Arc::new(Referee::default());
    let mut tasks = JoinSet::new();
    for (at, locks) in clients.into_iter().enumerate() {
        for key in KEYS {
            let (referee, locks) = (referee.clone(), locks.clone());
            tasks.spawn(async move { work(&referee, &locks, key, ttl, at % 2 == 0).await });
        }
    }
    trouble().await;
    let before = referee.grants();
    until("each lock is granted again", async || {
        let now = referee.grants();
        KEYS.iter().all(|key| now.get(key) > before.get(key)) || referee.has_ended()
    })
    .await;
    referee.is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = soon("the clients end", tasks.join_next()).await {
        ended.expect("no client panics");
    }
    let lost = referee.lost.load(Ordering::Relaxed);
    println!("granted {:?} times; {lost} were lost", referee.grants());
}

/// Takes and releases one lock until the story is over.
async fn work(referee: &Referee, locks: &Locks, key: &'static str, ttl: Duration, drops: bool) {
    while !referee.is_over.load(Ordering::Relaxed) {
        match locks.mutex(key).ttl(ttl).try_lock_for(ttl).await {
            Ok(Some(guard)) => {
                hold(referee, key, &guard, ttl).await;
                if !drops {
                    // The outcome may be unknown, or the lock lost.
                    let _ = guard.release().await;
                }
            }
            Ok(None) => {}
            Err(error) => {
                assert!(error.is_retryable() || error.kind() == ErrorKind::Lost, "{error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn hold(referee: &Referee, key: &'static str, guard: &MutexGuard, ttl: Duration) {
    let grants = referee.enter(key, guard);
    let (began, time) =
        (Instant::now(), if grants.is_multiple_of(LONG_HOLDS) { ttl * 3 / 2 } else { HOLD });
    while began.elapsed() < time {
        tokio::time::sleep(PAUSE).await;
        referee.look(key);
    }
    referee.leave(key, guard);
}

/// Compares the guards of a lock.
#[derive(Default)]
struct Referee {
    locks: Mutex<HashMap<&'static str, Judged>>,
    lost: AtomicU64,
    is_over: AtomicBool,
    has_failed: AtomicBool,
}

#[derive(Default)]
struct Judged {
    holders: Vec<LeaseHandle>,
    token: u64,
    grants: u64,
}

impl Referee {
    /// Returns the count of grants of this lock.
    fn enter(&self, key: &'static str, guard: &MutexGuard) -> u64 {
        let token = guard.token().get();
        let (last, grants) = {
            let mut locks = self.locks.lock();
            let judged = locks.entry(key).or_default();
            judged.holders.push(guard.handle());
            judged.grants += 1;
            let last = judged.token;
            judged.token = last.max(token);
            (last, judged.grants)
        };
        // A guard that was lost before it came here may be older than the last one.
        let is_newer = last < token || guard.check().is_err();
        self.requires(is_newer, || format!("{key}: token {token} came after {last}"));
        self.look(key);
        grants
    }

    /// A guard that says now that it holds has held since it was granted, so two that say so one
    /// after the other hold at once.
    fn look(&self, key: &'static str) {
        let locks = self.locks.lock();
        let holders = locks[key].holders.iter().filter(|holder| holder.check().is_ok());
        let count = holders.count();
        drop(locks);
        self.requires(count <= 1, || format!("{count} clients hold {key} at once"));
    }

    fn leave(&self, key: &'static str, guard: &MutexGuard) {
        if guard.check().is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        let mut locks = self.locks.lock();
        let judged = locks.get_mut(key).expect("it entered");
        judged.holders.retain(|holder| holder.id() != guard.id());
    }

    fn requires(&self, is_so: bool, or: impl FnOnce() -> String) {
        if !is_so {
            self.has_failed.store(true, Ordering::Relaxed);
            panic!("{}", or());
        }
    }

    fn has_ended(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    fn grants(&self) -> HashMap<&'static str, u64> {
        self.locks.lock().iter().map(|(key, judged)| (*key, judged.grants)).collect()
    }
}
