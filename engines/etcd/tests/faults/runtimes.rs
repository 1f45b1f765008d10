//! The callers' own runtimes: ended, many, without drivers, standing still, and many callers at a
//! time on one.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_core::blocking::block_on;
use tenure_core::{Locks, TicketId};
use tenure_servers::etcd::{Cluster, ETCD, ETCDCTL};
use tenure_servers::have;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::between::Between;
use super::stage::{PATIENCE, TTL, connect, play, until_line};

/// More than a client keeps connections for.
const RUNTIMES: usize = 80;
const CALLERS: usize = 16;
const ROUNDS: usize = 10;
const KEYS: usize = 3;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Plays a story on a thread without a runtime, with a client of a cluster of one member.
fn with_locks(story: impl FnOnce(&Cluster, Locks) + Send + 'static) {
    if !have(&[ETCD, ETCDCTL]) {
        return;
    }
    let (done, ended) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let cluster = Cluster::of(1).expect("the cluster starts");
        let locks = runtime().block_on(connect(&cluster));
        story(&cluster, locks);
        done.send(())
    });
    ended.recv_timeout(PATIENCE).expect("the story ends, and in time");
}

/// Uses the locks until this runtime has a connection of its own. Of a runtime with one thread,
/// only its tasks know that it is driven.
async fn open_a_link(locks: &Locks, opened: impl Fn() -> u64) {
    let before = opened();
    while opened() == before {
        visit(locks).await;
    }
    for _ in 0..5 {
        visit(locks).await;
    }
}

/// Returns a function that counts the connections that were opened.
fn opened(cluster: &Cluster) -> impl Fn() -> u64 + use<'_> {
    || cluster.members()[0].requests("Status")
}

async fn visit(locks: &Locks) {
    let locks = locks.clone();
    let visit = async move { locks.mutex("lane").lock().await?.release().await };
    tokio::spawn(visit).await.unwrap().unwrap();
}

#[test]
fn a_runtime_may_end_while_it_has_a_connection() {
    with_locks(|cluster, locks| {
        let first = runtime();
        let guard = first.block_on(async {
            open_a_link(&locks, opened(cluster)).await;
            locks.mutex("a").ttl(TTL).lock().await.unwrap()
        });
        let waiting = locks.mutex("a").ttl(TTL);
        let waiter = first.spawn(async move { waiting.lock().await.map(drop) });
        first.block_on(until_line(&locks, "a", 2));
        drop(first);
        assert!(block_on(waiter).unwrap_err().is_cancelled());
        thread::sleep(TTL * 2);
        guard.check().expect("it is kept by a thread of Tenure's own");
        block_on(locks.flush());
        assert_eq!(block_on(locks.line("a")).unwrap().len(), 1);
        let second = runtime();
        second.block_on(async { open_a_link(&locks, opened(cluster)).await });
        second.block_on(guard.release()).unwrap();
        let guard = second.block_on(locks.mutex("a").lock()).unwrap();
        drop(second);
        drop(guard);
        block_on(locks.flush());
        assert!(block_on(locks.keys("")).unwrap().is_empty());
    });
}

#[test]
fn runtimes_may_come_and_go_and_be_many_at_a_time() {
    with_locks(|_, locks| {
        let runtimes: Vec<_> = (0..RUNTIMES).map(|_| runtime()).collect();
        let mut newest = 0;
        for (at, runtime) in runtimes.into_iter().enumerate() {
            let visits = locks.clone();
            newest = runtime.block_on(async {
                let visits = async move {
                    for _ in 0..at % 4 {
                        let guard = visits.mutex("a").lock().await.unwrap();
                        assert!(guard.token().get() > newest);
                        newest = guard.token().get();
                        if at % 3 > 0 {
                            guard.release().await.unwrap();
                        }
                    }
                    newest
                };
                tokio::spawn(visits).await.unwrap()
            });
            if at % 2 == 0 {
                runtime.shutdown_background();
            }
        }
        block_on(locks.flush());
        assert!(block_on(locks.keys("")).unwrap().is_empty());
    });
}

#[test]
fn a_runtime_without_drivers_can_lock() {
    with_locks(|_, locks| {
        let bare = Builder::new_current_thread().build().unwrap();
        let timed = Builder::new_current_thread().enable_time().build().unwrap();
        let wired = Builder::new_current_thread().enable_io().build().unwrap();
        for runtime in [&bare, &timed, &wired] {
            for _ in 0..20 {
                runtime.block_on(visit(&locks));
            }
        }
    });
}

#[test]
fn a_runtime_that_stands_still_keeps_its_locks_and_keeps_nobody_else_waiting() {
    with_locks(|cluster, locks| {
        let still = runtime();
        let guard = still.block_on(async {
            open_a_link(&locks, opened(cluster)).await;
            locks.mutex("a").ttl(TTL).lock().await.unwrap()
        });
        // A few verbs are started and stay in flight.
        let (asking, mut asks) = (locks.clone(), Vec::new());
        still.block_on(async {
            for at in 0..8_u64 {
                let locks = asking.clone();
                asks.push(tokio::spawn(async move {
                    // Sessions of their own are opened, and the line is looked at.
                    let ttl = TTL + Duration::from_secs(at);
                    let _held = locks.mutex(format!("b{at}")).ttl(ttl).lock().await;
                }));
            }
            tokio::task::yield_now().await;
        });
        let mut extends = pin!(guard.extend());
        // The poll starts the call, which then stays in flight.
        let _ = still.block_on(async { extends.as_mut().now_or_never() });
        let elsewhere = runtime();
        for at in 0..8_u64 {
            let ttl = TTL + Duration::from_secs(at);
            let other = locks.mutex(format!("c{at}")).ttl(ttl);
            elsewhere.block_on(async {
                other.lock().await.expect("it is served").release().await.unwrap();
            });
        }
        thread::sleep(TTL * 2);
        guard.check().expect("it is kept alive");
        drop(asks);
    });
}

#[test]
fn who_stands_still_while_it_shuts_a_door_keeps_nobody_else_from_shutting_another() {
    play(1, async |cluster| {
        let between = Between::of(&cluster).await;
        let url = format!("{}?timeout=500ms", between.url());
        let locks = tenure_etcd::connect(url).await.unwrap();
        // From now on, requests go over a connection of this runtime.
        open_a_link(&locks, || between.streams("Status")).await;
        let mut held = Vec::new();
        for key in ["a", "b"] {
            // The first request of this ticket comes late, if ever.
            between.hold_next("Txn");
            held.push(locks.mutex(key).lock().await.unwrap());
        }
        let (one, other) = (held.pop().unwrap(), held.pop().unwrap());
        let mut releases = pin!(one.release());
        assert!(releases.as_mut().now_or_never().is_none(), "it is under way");
        other.release().await.unwrap();
        releases.await.unwrap();
    });
}

#[test]
fn locks_may_be_closed_and_dropped_by_any_runtime() {
    with_locks(|cluster, locks| {
        let (one, other) = (runtime(), runtime());
        one.block_on(open_a_link(&locks, opened(cluster)));
        let guard = one.block_on(locks.mutex("a").lock()).unwrap();
        other.block_on(open_a_link(&locks, opened(cluster)));
        let closing = locks.clone();
        other.block_on(async { tokio::spawn(async move { closing.close().await }).await }).unwrap();
        drop(guard);
        other.block_on(async move { drop(locks) });
        drop((one, other));
        let again = runtime().block_on(connect(cluster));
        runtime().block_on(until_line(&again, "a", 0));
    });
}

#[test]
fn many_on_one_runtime_who_come_and_go_are_served_one_at_a_time_and_leave_nothing() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        // From now on, requests go over a connection of this runtime.
        open_a_link(&locks, opened(&cluster)).await;
        let held: Arc<[AtomicBool; KEYS]> = Arc::default();
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (locks, held) = (locks.clone(), held.clone());
            callers.spawn(async move {
                for round in 0..ROUNDS {
                    let random = random();
                    let at = random % KEYS;
                    let lock = locks.mutex(format!("{at}"));
                    let patience = Duration::from_micros((random / KEYS % 10_000) as u64);
                    let guard = if (caller + round).is_multiple_of(3) {
                        Some(lock.lock().await.unwrap())
                    } else {
                        // Its future is dropped wherever it is.
                        tokio::time::timeout(patience, lock.lock()).await.ok().map(Result::unwrap)
                    };
                    let Some(guard) = guard else { continue };
                    assert!(!held[at].swap(true, Ordering::SeqCst), "two are served at once");
                    tokio::task::yield_now().await;
                    held[at].store(false, Ordering::SeqCst);
                    if round % 2 == 0 {
                        guard.release().await.unwrap();
                    }
                }
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended.unwrap();
        }
        locks.flush().await;
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}

/// Returns a number that is as random as the id of a ticket.
fn random() -> usize {
    use std::hash::{BuildHasher as _, RandomState};
    usize::try_from(RandomState::new().hash_one(TicketId::fresh()) >> 1).unwrap_or(0)
}
