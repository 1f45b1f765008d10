//! Many: ten thousand locks on one connection, and two thousand waiters in one line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use tenure_core::Engine as _;
use tenure_servers::redis::Server;
use tokio::task::JoinSet;

use super::stage::{LONG, connect, play, script_calls, soon, store, until, until_renewed};

#[test]
fn ten_thousand_locks_are_kept_on_one_connection() {
    play(async || {
        const LOCKS: usize = 10_000;
        const TTL: Duration = Duration::from_secs(12);
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let began = Instant::now();
        let taken = stream::iter(0..LOCKS).map(|number| {
            let mutex = locks.mutex(format!("lock {number}")).ttl(TTL);
            async move { mutex.lock().await.unwrap() }
        });
        let guards: Vec<_> = taken.buffer_unordered(200).collect().await;
        println!("{LOCKS} locks were taken in {:?}", began.elapsed());
        let before = script_calls(&server);
        until_renewed(&guards).await;
        println!("their renewal took {} calls", script_calls(&server) - before);
        let lost = guards.iter().filter(|guard| guard.check().is_err()).count();
        assert_eq!(lost, 0);
        let failed = guards.iter().filter(|guard| guard.remaining().is_none_or(|it| it < TTL / 4));
        println!("{} were close to their end", failed.count());
        drop(guards);
        soon("all are given back", locks.flush()).await;
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}

#[test]
fn two_thousand_waiters_are_served_in_turn() {
    play(async || {
        const WAITERS: u64 = 2000;
        let server = Server::start().unwrap();
        // A connection that is silent for a timeout is opened again, and then each waiter asks.
        let url = format!("{}?timeout=60s", server.url());
        let (locks, onlooker) = (connect(&url).await, store(&url).await);
        let first = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let newest = Arc::new(AtomicU64::new(first.token().get()));
        let key = first.key().clone();
        let mut waiters = JoinSet::new();
        for _ in 0..WAITERS {
            let (mutex, newest) = (locks.mutex("a").ttl(LONG), newest.clone());
            waiters.spawn(async move {
                let guard = mutex.lock().await.unwrap();
                let before = newest.swap(guard.token().get(), Ordering::SeqCst);
                assert!(
                    guard.token().get() > before,
                    "{} was served after {before}",
                    guard.token()
                );
                guard.check().unwrap();
                guard.release().await.unwrap();
            });
        }
        until("all stand in line", async || {
            onlooker.line(&key).await.unwrap().len() as u64 == WAITERS + 1
        })
        .await;
        let (before, began) = (script_calls(&server), Instant::now());
        first.release().await.unwrap();
        soon("all are served", async {
            while let Some(served) = waiters.join_next().await {
                served.unwrap();
            }
        })
        .await;
        let calls = script_calls(&server) - before;
        println!("{WAITERS} hand-overs took {:?} and {calls} calls", began.elapsed());
        // A hand-over is one request and one push.
        assert!(calls <= WAITERS + 100, "{calls} calls");
        assert!(onlooker.line(&key).await.unwrap().is_empty());
    });
}
