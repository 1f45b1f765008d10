//! Calls from any thread: without a runtime, on one without drivers, on one that is frozen or has
//! ended.

use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_core::blocking::block_on;
use tenure_core::{Locks, ThisRuntime};
use tenure_servers::zookeeper::{Ensemble, JAVA, ZOOKEEPER};
use tenure_servers::{Store as _, have};
use tokio::runtime::{Builder, Runtime};

use super::stage::{PATIENCE, TTL, at_last, connect, until_line};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Plays a story on a thread without a runtime, with a client of one server.
fn with_locks(story: impl FnOnce(&Ensemble, Locks) + Send + 'static) {
    if !have(&[JAVA, ZOOKEEPER]) {
        return;
    }
    let (done, ended) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let ensemble = Ensemble::of(1).expect("the ensemble starts");
        let locks = runtime().block_on(connect(&ensemble));
        story(&ensemble, locks);
        done.send(())
    });
    ended.recv_timeout(PATIENCE).expect("the story ends, and in time");
}

/// Calls each verb of a caller once.
async fn visit(locks: &Locks) {
    let guard = locks.mutex("visited").lock().await.unwrap();
    assert!(locks.mutex("visited").try_lock().await.unwrap().is_none());
    guard.extend().await.unwrap();
    assert_eq!(locks.line("visited").await.unwrap().len(), 1);
    assert!(locks.keys("vis").await.unwrap().iter().any(|key| key.as_str() == "visited"));
    assert!(locks.sequence("count").next().await.unwrap() > 0);
    guard.release().await.unwrap();
}

#[test]
fn callers_without_a_runtime_or_its_drivers_can_lock() {
    with_locks(|_, locks| {
        block_on(visit(&locks));
        let bare = Builder::new_current_thread().build().unwrap();
        let timed = Builder::new_current_thread().enable_time().build().unwrap();
        let wired = Builder::new_current_thread().enable_io().build().unwrap();
        for runtime in [&bare, &timed, &wired] {
            runtime.block_on(visit(&locks));
        }
        futures_util::future::join_all((0..4).map(|_| visit(&locks))).now_or_never();
        block_on(locks.flush());
        block_on(until_empty(&locks));
    });
}

/// Polls each of these once, and returns them. They are not polled again.
fn begun<T>(verbs: impl Iterator<Item = impl Future<Output = T>>) -> Vec<impl Future<Output = T>> {
    verbs
        .map(|verb| {
            let mut verb = Box::pin(verb);
            // Some may be answered by their first poll.
            let _ = verb.as_mut().now_or_never();
            verb
        })
        .collect()
}

/// More verbs than are carried out on the caller's thread.
const STILL: usize = 560;

#[test]
fn verbs_that_stand_still_keep_nobody_out_however_many_they_are() {
    with_locks(|_, locks| {
        locks.mutex("warm").ttl(TTL).blocking().lock().unwrap().release().unwrap();
        let (mutex, asking) = (locks.mutex("b").ttl(TTL), locks.clone());
        let listings = begun((0..STILL).map(|_| asking.line("b")));
        runtime().block_on(is_served(&locks));
        drop(listings);
        let joins = begun((0..STILL).map(|_| mutex.lock()));
        runtime().block_on(is_served(&locks));
        drop(joins);
    });
}

async fn is_served(locks: &Locks) {
    for _ in 0..5 {
        // A busy server may answer too late, which no verb that stands still has a part in.
        let guard = at_last("it is served", async || locks.mutex("c").ttl(TTL * 8).lock().await);
        let guard = guard.await;
        until_line(locks, "c", 1).await;
        let line = at_last("it is answered", async || locks.line("c").await).await;
        assert_eq!(line[0].id, guard.id());
        guard.release().await.expect("it is answered");
    }
}

#[test]
fn who_closes_locks_is_not_kept_by_a_verb_that_stands_still() {
    with_locks(|ensemble, locks| {
        let elsewhere = runtime();
        elsewhere.block_on(async {
            let other = connect(ensemble).await;
            let held = locks.mutex("a").ttl(TTL).lock().await.unwrap();
            let (mutex, asking) = (locks.mutex("b").ttl(TTL), locks.clone());
            let still = begun([mutex.try_lock()].into_iter());
            let listing = begun([asking.line("b")].into_iter());
            locks.close().await;
            until_line(&other, "a", 0).await;
            until_line(&other, "b", 0).await;
            drop((still, listing, held));
        });
    });
}

/// Locks whose home is a runtime of the user's.
async fn on_this_runtime(ensemble: &Ensemble) -> Locks {
    let (url, host) = (ensemble.url(), Arc::new(ThisRuntime::new()));
    let engine = tenure_zookeeper::engine(&url, host.clone()).await.unwrap();
    Locks::on(engine, host)
}

#[test]
fn callers_on_the_home_runtime_keep_nobody_out_either() {
    with_locks(|ensemble, _| {
        runtime().block_on(async {
            let locks = on_this_runtime(ensemble).await;
            let listing = begun([locks.line("a")].into_iter());
            assert!(locks.line("a").await.expect("it is answered").is_empty());
            locks.mutex("a").lock().await.unwrap().release().await.unwrap();
            drop(listing);
        });
    });
}

#[test]
fn a_home_runtime_that_ends_takes_its_locks_along() {
    with_locks(|ensemble, other| {
        let home = runtime();
        let (locks, guard) = home.block_on(async {
            let locks = on_this_runtime(ensemble).await;
            let guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
            (locks, guard)
        });
        drop(home);
        let elsewhere = runtime();
        elsewhere.block_on(async {
            // The end is reported as an error, perhaps not at once, and not as a panic.
            let refused = locks.line("a").await.map(drop).expect_err("nobody asks");
            assert!(refused.is_retryable(), "{refused}");
            until_line(&other, "a", 0).await;
        });
        guard.check().expect_err("it is lost");
    });
}

async fn until_empty(locks: &Locks) {
    while !locks.keys("").await.unwrap().is_empty() {}
}

#[test]
fn a_runtime_that_stands_still_keeps_its_locks_and_keeps_nobody_else_waiting() {
    // Six hundred calls are answered meanwhile, also on a busy machine.
    const TTL: Duration = Duration::from_secs(8);
    with_locks(|_, locks| {
        let still = runtime();
        let guard = still.block_on(locks.mutex("a").ttl(TTL).lock()).unwrap();
        // Verbs are started and stay in flight.
        let mut asks = Vec::new();
        still.block_on(async {
            for at in 0..600_u64 {
                let (locks, ttl) = (locks.clone(), TTL + Duration::from_secs(at % 8));
                asks.push(tokio::spawn(async move {
                    // Sessions of their own are opened, and one line is looked at by all.
                    let _held = locks.mutex(format!("b{}", at % 16)).ttl(ttl).lock().await;
                    let _line = locks.line("c0").await;
                }));
            }
            tokio::task::yield_now().await;
        });
        let mut extends = pin!(guard.extend());
        // The poll starts the call, which then stays in flight.
        let _ = still.block_on(async { extends.as_mut().now_or_never() });
        let elsewhere = runtime();
        for at in 0..8_u64 {
            let other = locks.mutex(format!("c{at}")).ttl(TTL + Duration::from_secs(at));
            elsewhere.block_on(async {
                let first = other.lock().await.expect("it is served");
                let waits = tokio::spawn({
                    let other = other.clone();
                    async move { other.lock().await }
                });
                until_line(&locks, &format!("c{at}"), 2).await;
                first.release().await.unwrap();
                waits.await.unwrap().expect("it is served").release().await.unwrap();
            });
        }
        thread::sleep(TTL * 2);
        guard.check().expect("it is kept alive");
        drop(asks);
    });
}

#[test]
fn a_runtime_that_ends_in_the_middle_leaves_nothing_behind() {
    with_locks(|ensemble, locks| {
        for round in 0..20 {
            let ending = runtime();
            let (locks, round) = (locks.clone(), round % 5);
            ending.block_on(async move {
                for at in 0..20 {
                    let locks = locks.clone();
                    tokio::spawn(async move {
                        let guard = locks.mutex(format!("k{at}")).lock().await;
                        guard.unwrap().release().await.unwrap();
                    });
                }
                for _ in 0..round {
                    tokio::task::yield_now().await;
                }
            });
            drop(ending);
        }
        let other = runtime();
        other.block_on(async {
            locks.flush().await;
            let again = connect(ensemble).await;
            for at in 0..20 {
                until_line(&again, &format!("k{at}"), 0).await;
            }
            again.mutex("k0").lock().await.unwrap().release().await.unwrap();
        });
        block_on(locks.close());
    });
}
