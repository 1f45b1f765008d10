//! Many: a thousand waiters of one lock, and many locks of one client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use tenure_core::MutexGuard;
use tenure_servers::mariadb::Server;

use super::stage::{LONG, again, connect, number, play, soon, until_line};

/// Calls of procedures, each of which is a verb or a part of one.
const CALLS: &str = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'COM_CALL_PROCEDURE'";

#[test]
fn a_thousand_waiters_of_which_half_give_up_are_served_in_turn() {
    play(async || {
        const WAITERS: usize = 1000;
        const CLIENTS: usize = 8;
        // Other servers that start delete the temporary files in `/tmp`.
        let server = Server::start().unwrap();
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(connect(server.url()).await);
        }
        let first = clients[0].mutex("a").ttl(LONG).lock().await.unwrap();
        let newest = Arc::new(AtomicU64::new(first.token().get()));
        let waiters = (0..WAITERS).map(|at| {
            let (mutex, newest) = (clients[at % CLIENTS].mutex("a").ttl(LONG), newest.clone());
            tokio::spawn(async move {
                let guard = mutex.lock().await.unwrap();
                let before = newest.swap(guard.token().get(), Ordering::SeqCst);
                assert!(guard.token().get() > before, "{} came after {before}", guard.token());
                guard.check().unwrap();
                guard.release().await.unwrap();
            })
        });
        let waiters: Vec<_> = waiters.collect();
        until_line(&clients[0], "a", WAITERS + 1).await;
        let (quit, stay): (Vec<_>, Vec<_>) =
            waiters.into_iter().enumerate().partition(|(at, _)| (at / CLIENTS).is_multiple_of(2));
        for (_, waiter) in &quit {
            waiter.abort();
        }
        until_line(&clients[0], "a", stay.len() + 1).await;
        let (before, began) = (number(&server, CALLS), Instant::now());
        first.release().await.unwrap();
        for (_, waiter) in stay {
            soon("the waiter is served", waiter).await.unwrap();
        }
        let (took, after) = (began.elapsed(), number(&server, CALLS));
        println!("{} hand-overs took {took:?}, {} calls", WAITERS / 2, after - before);
        until_line(&clients[0], "a", 0).await;
    });
}

#[test]
fn the_renewals_of_many_locks_of_one_client_share_commits() {
    play(async || {
        const LOCKS: usize = 1000;
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let taken = stream::iter(0..LOCKS).map(|number| {
            let mutex = locks.mutex(format!("lock {number}")).ttl(LONG);
            async move { again(|| mutex.lock()).await }
        });
        let guards: Vec<_> = taken.buffer_unordered(200).collect().await;
        // Another client waits for the first lock, so its record has to be read and written.
        let other = connect(server.url()).await;
        let mutex = other.mutex("lock 0").ttl(LONG);
        let waiter = tokio::spawn(async move { again(|| mutex.lock()).await });
        until_line(&locks, "lock 0", 2).await;
        let before = number(&server, CALLS);
        let renewed = stream::iter(&guards).map(MutexGuard::extend);
        renewed.buffer_unordered(200).for_each(async |renewed| renewed.unwrap()).await;
        let calls = number(&server, CALLS) - before;
        let few = i64::try_from(LOCKS / 4).unwrap();
        assert!(calls < few, "{calls} calls");
        drop(guards);
        soon("the waiter is served", waiter).await.unwrap().release().await.unwrap();
        soon("all are given back", locks.flush()).await;
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}
