//! Dropped locks, guards and futures leave nothing behind: no connection, no thread, no ticket.

use std::fs;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tenure_core::Locks;
use tenure_servers::redis::Server;

use super::stage::{LONG, connect, connections, play, soon, until, until_line};

/// Returns the threads of this process that belong to an engine.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let ids = tasks.filter_map(|task| {
        let task = task.ok()?;
        let name = fs::read_to_string(task.path().join("comm")).ok()?;
        (name.trim() == "tenure").then(|| task.file_name().to_string_lossy().into_owned())
    });
    ids.collect()
}

#[test]
fn dropped_locks_leave_no_connection() {
    play(async || {
        let server = Server::start().unwrap();
        for round in 0..5 {
            let locks = connect(server.url()).await;
            let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
            let waiting = locks.mutex("a").ttl(LONG);
            let waiter = tokio::spawn(async move { waiting.lock().await.map(drop) });
            until_line(&locks, "a", 2).await;
            assert!(connections(&server) >= 2, "one listens, one is this runtime's");
            if round % 2 == 0 {
                waiter.abort();
            } else {
                guard.release().await.unwrap();
                soon("it is served", waiter).await.unwrap().unwrap();
            }
            drop(locks);
            if round % 2 == 0 {
                continue;
            }
            until("the connections are closed", async || connections(&server) == 0).await;
        }
        let locks = connect(server.url()).await;
        until("everything is given back", async || locks.keys("").await.unwrap().is_empty()).await;
        drop(locks);
        until("the connections are closed", async || connections(&server) == 0).await;
    });
}

#[test]
fn locks_whose_server_is_gone_end_as_well() {
    play(async || {
        let before = threads();
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(Duration::from_secs(1)).lock().await.unwrap();
        let own: Vec<_> = threads().into_iter().filter(|id| !before.contains(id)).collect();
        assert!(!own.is_empty());
        server.kill().unwrap();
        drop((guard, locks));
        // Another thread may have got one of these ids meanwhile, but it does not live for the
        // whole wait.
        until("its thread ends", async || own.iter().any(|id| !threads().contains(id))).await;
    });
}

/// Polls a future `polls` times, and drops it. Returns whether it was ready before that.
async fn dropped_after<F: Future>(polls: usize, future: F) -> bool {
    let mut future = pin!(future);
    for _ in 0..polls {
        let waker = Waker::noop();
        if let Poll::Ready(_over) = future.as_mut().poll(&mut Context::from_waker(waker)) {
            return true;
        }
        // The future waits for other threads, which need a moment.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    false
}

#[test]
fn a_future_that_is_dropped_anywhere_leaves_nothing_in_the_line() {
    play(async || {
        let server = Server::start().unwrap();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        let mutex = |locks: &Locks| locks.mutex("a").ttl(LONG);
        for is_taken in [false, true] {
            let taken = if is_taken { Some(mutex(&other).lock().await.unwrap()) } else { None };
            for polls in 0..40 {
                dropped_after(polls, mutex(&locks).lock()).await;
                dropped_after(polls, mutex(&locks).try_lock()).await;
                dropped_after(polls, mutex(&locks).try_lock_for(LONG)).await;
            }
            until_line(&other, "a", usize::from(is_taken)).await;
            drop(taken);
            soon("it is free", mutex(&locks).lock()).await.unwrap().release().await.unwrap();
        }
        for polls in 0..40 {
            let guard = mutex(&locks).lock().await.unwrap();
            dropped_after(polls, guard.release()).await;
        }
        until_line(&other, "a", 0).await;
    });
}
