//! Many: a thousand waiters of one lock, and ten thousand locks of one client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use tenure_servers::postgres::Server;

use super::stage::{LONG, again, connect, number, play, soon, until_line};

const TRANSACTIONS: &str =
    "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'";
const KILOBYTES: &str = "SELECT pg_total_relation_size('tenure.line') / 1024";

#[test]
fn a_thousand_waiters_of_which_half_give_up_are_served_in_turn() {
    play(async || {
        const WAITERS: usize = 1000;
        let server = Server::start().unwrap();
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(connect(server.url()).await);
        }
        let first = clients[0].mutex("a").ttl(LONG).lock().await.unwrap();
        let newest = Arc::new(AtomicU64::new(first.token().get()));
        let waiters = (0..WAITERS).map(|at| {
            let (mutex, newest) = (clients[at % 4].mutex("a").ttl(LONG), newest.clone());
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
            waiters.into_iter().enumerate().partition(|(at, _)| at / 4 % 2 == 0);
        for (_, waiter) in &quit {
            waiter.abort();
        }
        until_line(&clients[0], "a", stay.len() + 1).await;
        let (before, began) = (number(&server, TRANSACTIONS), Instant::now());
        first.release().await.unwrap();
        for (_, waiter) in stay {
            soon("the waiter is served", waiter).await.unwrap();
        }
        let (took, after) = (began.elapsed(), number(&server, TRANSACTIONS));
        println!("{} hand-overs took {took:?}, {} transactions", WAITERS / 2, after - before);
        until_line(&clients[0], "a", 0).await;
        println!("the table has {} KiB", number(&server, KILOBYTES));
    });
}

#[test]
fn ten_thousand_locks_are_kept_by_one_client() {
    play(async || {
        const LOCKS: usize = 10_000;
        const TTL: Duration = Duration::from_secs(30);
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let began = Instant::now();
        let taken = stream::iter(0..LOCKS).map(|number| {
            let mutex = locks.mutex(format!("lock {number}")).ttl(TTL);
            async move { again(|| mutex.lock()).await }
        });
        let guards: Vec<_> = taken.buffer_unordered(200).collect().await;
        println!("{LOCKS} locks were taken in {:?}", began.elapsed());
        println!("the table has {} KiB", number(&server, KILOBYTES));
        let (before, began) = (number(&server, TRANSACTIONS), Instant::now());
        // A lease that has not been renewed twice by then has expired.
        tokio::time::sleep(TTL * 2).await;
        let requests = number(&server, TRANSACTIONS) - before;
        println!("{requests} requests in {:?}", began.elapsed());
        println!("the table has {} KiB", number(&server, KILOBYTES));
        let lost = guards.iter().filter(|guard| guard.check().is_err()).count();
        assert_eq!(lost, 0);
        drop(guards);
        soon("all are given back", locks.flush()).await;
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}
