//! The caller's own runtimes: dropped, many, without drivers, or standing still.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tenure_core::Locks;
use tenure_core::blocking::block_on;
use tenure_servers::have;
use tenure_servers::redis::{REDIS, Server, Setup};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::stage::{LONG, PATIENCE, ask, connections, script_calls};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn server() -> Option<Server> {
    have(&[REDIS]).then(|| Server::start().unwrap())
}

/// Ends in time, or the test fails.
fn within_patience<T: Send + 'static>(story: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(story()));
    ended.recv_timeout(PATIENCE).expect("the story ends, and in time")
}

/// Uses the locks until this runtime has a connection of its own, in a task: of a runtime with one
/// thread, only its tasks know that it is driven.
async fn open_a_link(locks: &Locks, server: &Server) {
    let before = connections(server);
    for round in 0.. {
        assert!(round < 10_000, "no link is opened");
        visit(locks).await;
        if connections(server) > before {
            break;
        }
    }
    for _ in 0..3 {
        visit(locks).await;
    }
}

async fn visit(locks: &Locks) {
    let locks = locks.clone();
    let visit = async move { locks.mutex("lane").lock().await?.release().await };
    tokio::spawn(visit).await.unwrap().unwrap();
}

#[test]
fn a_runtime_may_end_while_it_has_a_connection() {
    let Some(server) = server() else { return };
    within_patience(move || {
        let first = runtime();
        let locks = first.block_on(tenure_redis::connect(server.url())).unwrap();
        let guard = first.block_on(async {
            open_a_link(&locks, &server).await;
            locks.mutex("a").ttl(LONG).lock().await.unwrap()
        });
        let waiting = locks.mutex("a").ttl(LONG);
        let waiter = first.spawn(async move { waiting.lock().await.map(drop) });
        first.block_on(super::stage::until_line(&locks, "a", 2));
        drop(first);
        assert!(block_on(waiter).unwrap_err().is_cancelled());
        // A thread of Tenure renews the guard, and the waiter's ticket is released.
        guard.check().unwrap();
        block_on(guard.extend()).unwrap();
        block_on(locks.flush());
        assert_eq!(block_on(locks.line("a")).unwrap().len(), 1);
        block_on(guard.release()).unwrap();
        let second = runtime();
        let guard = second.block_on(locks.mutex("a").lock()).unwrap();
        drop(second);
        drop(guard);
        block_on(locks.flush());
        assert!(block_on(locks.keys("")).unwrap().is_empty());
    });
}

#[test]
fn runtimes_may_come_and_go() {
    let Some(server) = server() else { return };
    within_patience(move || {
        let locks = block_on(tenure_redis::connect(server.url())).unwrap();
        let mut newest = 0;
        for round in 0..200 {
            let runtime = runtime();
            runtime.block_on(async {
                for _ in 0..round % 4 {
                    let guard = locks.mutex("a").lock().await.unwrap();
                    assert!(guard.token().get() > newest);
                    newest = guard.token().get();
                    if round % 3 > 0 {
                        guard.release().await.unwrap();
                    }
                }
            });
            if round % 2 == 0 {
                runtime.shutdown_background();
            }
        }
        block_on(locks.flush());
        assert!(block_on(locks.keys("")).unwrap().is_empty());
        while connections(&server) > 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn a_hundred_runtimes_may_be_there_at_a_time() {
    let Some(server) = server() else { return };
    within_patience(move || {
        let locks = block_on(tenure_redis::connect(server.url())).unwrap();
        let runtimes: Vec<_> = (0..100).map(|_| runtime()).collect();
        for round in 0..3 {
            for runtime in &runtimes {
                let guard = runtime.block_on(locks.mutex("a").lock()).unwrap();
                if round == 1 {
                    runtime.block_on(guard.release()).unwrap();
                }
            }
        }
        drop(runtimes);
        block_on(locks.flush());
        assert!(block_on(locks.keys("")).unwrap().is_empty());
    });
}

#[test]
fn a_runtime_without_drivers_can_lock() {
    let Some(server) = server() else { return };
    within_patience(move || {
        let locks = block_on(tenure_redis::connect(server.url())).unwrap();
        let bare = Builder::new_current_thread().build().unwrap();
        let timed = Builder::new_current_thread().enable_time().build().unwrap();
        for runtime in [&bare, &timed] {
            for _ in 0..10 {
                let guard = runtime.block_on(locks.mutex("a").lock()).unwrap();
                runtime.block_on(guard.release()).unwrap();
                runtime.block_on(async { tokio::task::yield_now().await });
            }
        }
    });
}

#[test]
fn a_runtime_that_stands_still_does_not_hold_up_its_thread() {
    let Some(server) = server() else { return };
    within_patience(move || {
        let runtime = runtime();
        let locks = runtime.block_on(tenure_redis::connect(server.url())).unwrap();
        runtime.block_on(open_a_link(&locks, &server));
        // No thread drives the runtime from here on, though this thread is in its context.
        let _context = runtime.enter();
        let guard = locks.blocking().mutex("a").lock().unwrap();
        guard.extend().unwrap();
        guard.release().unwrap();
    });
}

#[test]
fn a_runtime_whose_threads_are_all_busy_keeps_its_locks() {
    let Some(server) = server() else { return };
    within_patience(move || {
        let runtime = runtime();
        let locks = runtime.block_on(tenure_redis::connect(server.url())).unwrap();
        let ttl = Duration::from_secs(3);
        let guard = runtime.block_on(async {
            open_a_link(&locks, &server).await;
            locks.mutex("a").ttl(ttl).lock().await.unwrap()
        });
        runtime.block_on(async { std::thread::sleep(ttl * 2) });
        guard.check().unwrap();
        runtime.block_on(guard.release()).unwrap();
    });
}

/// Number of runtimes, which do not all connect at the same moment.
const RUNTIMES: usize = 24;

#[test]
fn connections_of_many_runtimes_that_are_lost_at_once_fail_no_verb_of_a_healthy_server() {
    let Some(server) = server() else { return };
    let locks = block_on(tenure_redis::connect(server.url())).unwrap();
    let (lost, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let users = (0..RUNTIMES).map(|at| {
        let (locks, lost, ended) = (locks.clone(), lost.clone(), ended.clone());
        let uses = async move {
            while !ended.load(Ordering::Relaxed) {
                let is_after = lost.load(Ordering::Relaxed);
                let used = locks.mutex(format!("key {at}")).lock().await;
                if is_after {
                    used.expect("the server is well").release().await.expect("and stays so");
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        std::thread::spawn(move || {
            let runtime = runtime();
            runtime.block_on(async { tokio::spawn(uses).await.unwrap() });
        })
    });
    let users: Vec<_> = users.collect();
    let began = Instant::now();
    while connections(&server) <= RUNTIMES {
        assert!(began.elapsed() < PATIENCE, "every runtime has a connection of its own");
        std::thread::sleep(Duration::from_millis(50));
    }
    lost.store(true, Ordering::Relaxed);
    for kind in ["normal SKIPME yes", "pubsub"] {
        ask(&server, &format!("CLIENT KILL TYPE {kind}"));
    }
    std::thread::sleep(Duration::from_secs(3));
    ended.store(true, Ordering::Relaxed);
    for user in users {
        user.join().unwrap();
    }
}

#[test]
fn a_runtime_that_stands_still_while_it_connects_keeps_nobody_else_from_the_server() {
    let Some(server) = server() else { return };
    within_patience(move || {
        let url = format!("{}?after_restart=trust", server.url());
        let locks = block_on(tenure_redis::connect(url)).unwrap();
        for _ in 0..3 {
            let stands_still = runtime();
            stands_still.block_on(open_a_link(&locks, &server));
            server.kill().unwrap();
            let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, server.port())).unwrap();
            let asking = locks.clone();
            stands_still.block_on(async {
                let asks = async move {
                    let began = Instant::now();
                    while began.elapsed() < Duration::from_millis(2500) {
                        let _attempt = asking.mutex("a").try_lock().now_or_never();
                        tokio::task::yield_now().await;
                    }
                };
                tokio::spawn(asks).await.unwrap();
            });
            // No thread drives that runtime from here on. One of its tasks may be about to find out
            // whether the server answers.
            drop(silent);
            server.restart().unwrap();
            let elsewhere = locks.blocking();
            while elsewhere.mutex("b").try_lock().is_err() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
}

#[test]
fn callers_that_stand_still_in_the_middle_keep_nobody_else_out() {
    let Some(server) = server() else { return };
    within_patience(move || {
        runtime().block_on(async {
            let locks = tenure_redis::connect(format!("{}?after_restart=trust", server.url()))
                .await
                .unwrap();
            let story = async move {
                open_a_link(&locks, &server).await;
                let mut still: Vec<_> =
                    (0..300).map(|_| Box::pin(async { locks.line("k").await.map(drop) })).collect();
                // Each is sent, or waits to be, and goes no further.
                still.retain_mut(|verb| verb.now_or_never().is_none());
                assert!(still.len() > 200, "{} were answered at once", 300 - still.len());
                for _ in 0..10 {
                    visit(&locks).await;
                }
                drop(still);
                visit(&locks).await;
            };
            tokio::spawn(story).await.unwrap();
        });
    });
}

#[test]
fn who_stands_still_while_replicas_are_asked_keeps_nobody_else_waiting() {
    let Some(server) = server() else { return };
    let replica = Setup::new().replica_of(&server).start().unwrap();
    within_patience(move || {
        let story = async move {
            let url = format!("{}?acks=1&after_restart=trust&timeout=2s", server.url());
            let locks = tenure_redis::connect(url).await.unwrap();
            open_a_link(&locks, &server).await;
            replica.freeze().unwrap();
            let mut still = Box::pin({
                let mutex = locks.mutex("still");
                async move { mutex.lock().await }
            });
            // The ticket is in, and the replica has not confirmed it.
            let asking = timeout(Duration::from_millis(150), &mut still).await;
            assert!(asking.is_err(), "{asking:?}");
            replica.thaw().unwrap();
            visit(&locks).await;
            let guard = still.await.unwrap();
            guard.release().await.unwrap();
        };
        runtime().block_on(async { tokio::spawn(story).await.unwrap() });
    });
}

#[test]
fn who_stands_still_while_the_scripts_are_told_keeps_nobody_else_waiting() {
    let Some(server) = server() else { return };
    within_patience(move || {
        let story = async move {
            let url = format!("{}?after_restart=trust&timeout=1m", server.url());
            let locks = tenure_redis::connect(url).await.unwrap();
            open_a_link(&locks, &server).await;
            ask(&server, "SCRIPT FLUSH");
            let before = script_calls(&server);
            let [mut still, mut next] = ["still", "next"].map(|key| {
                let mutex = locks.mutex(key).ttl(LONG);
                async move { mutex.lock().await }.boxed()
            });
            assert!((&mut still).now_or_never().is_none() && (&mut next).now_or_never().is_none());
            // Both calls learn that the scripts are missing, and the first begins to load them.
            while script_calls(&server) < before + 2 {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!((&mut still).now_or_never().is_none(), "it is on its way");
            let guard = timeout(PATIENCE / 4, next).await.expect("it is served").unwrap();
            guard.release().await.unwrap();
            still.await.unwrap().release().await.unwrap();
        };
        runtime().block_on(async { tokio::spawn(story).await.unwrap() });
    });
}

/// Two tasks of one client: one releases a lock and is not polled again, and the other waits for
/// it.
fn who_waits_is_served_though_the_release_before_it(
    ends: impl FnOnce(BoxFuture<'static, tenure_core::Result<()>>) + Send + 'static,
) {
    let Some(server) = server() else { return };
    within_patience(move || {
        let story = async move {
            let locks = tenure_redis::connect(format!("{}?after_restart=trust", server.url()))
                .await
                .unwrap();
            open_a_link(&locks, &server).await;
            let guard = locks.mutex("k").ttl(LONG).lock().await.unwrap();
            let waiter = tokio::spawn({
                let mutex = locks.mutex("k").ttl(LONG);
                async move { mutex.lock().await }
            });
            super::stage::until_line(&locks, "k", 2).await;
            tokio::task::yield_now().await;
            // The answer comes when the release has ended.
            server.freeze().unwrap();
            let mut release = guard.release().boxed();
            assert!((&mut release).now_or_never().is_none(), "it is on its way");
            ends(release);
            server.thaw().unwrap();
            // Its next sign of life is due in 20 minutes.
            let next = timeout(PATIENCE / 4, waiter).await.expect("it is served");
            next.unwrap().unwrap().release().await.unwrap();
        };
        Builder::new_multi_thread().enable_all().build().unwrap().block_on(story);
    });
}

#[test]
fn who_waits_is_served_though_the_release_before_it_is_dropped_on_its_way() {
    who_waits_is_served_though_the_release_before_it(drop);
}

#[test]
fn who_waits_is_served_though_the_release_before_it_stands_still_on_its_way() {
    let (keep, kept) = std::sync::mpsc::channel();
    who_waits_is_served_though_the_release_before_it(move |release| keep.send(release).unwrap());
    drop(kept);
}
