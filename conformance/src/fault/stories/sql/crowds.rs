//! Many: a thousand waiters of one lock, and ten thousand locks of one client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _};
use tenure_core::MutexGuard;

use super::{LONG, SqlServer, connect};
use crate::fault::stage::{again, soon, until_line, until_renewed};

/// A thousand wait, half of them give up, and the others are served in turn.
pub async fn a_thousand_waiters_of_which_half_give_up_are_served_in_turn<S: SqlServer>(server: &S) {
    const WAITERS: usize = 1000;
    const CLIENTS: usize = 4;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect::<S>(server.url()).await);
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
    let began = Instant::now();
    first.release().await.unwrap();
    for (_, waiter) in stay {
        soon("the waiter is served", waiter).await.unwrap();
    }
    println!("{} hand-overs took {:?}", WAITERS / 2, began.elapsed());
    until_line(&clients[0], "a", 0).await;
}

/// One client renews ten thousand locks in time. An engine's schedule runs this
/// alone: the renewals need a machine that is not busy.
pub async fn ten_thousand_locks_are_kept_by_one_client<S: SqlServer>(server: &S) {
    const LOCKS: usize = 10_000;
    const TTL: Duration = Duration::from_secs(30);
    let locks = connect::<S>(server.url()).await;
    let began = Instant::now();
    let taken = stream::iter(0..LOCKS).map(|number| {
        let mutex = locks.mutex(format!("lock {number}")).ttl(TTL);
        async move { again(|| mutex.lock()).await }
    });
    let guards: Vec<_> = taken.buffer_unordered(200).collect().await;
    println!("{LOCKS} locks were taken in {:?}", began.elapsed());
    until_renewed(&guards).await;
    let lost = guards.iter().filter(|guard| guard.check().is_err()).count();
    let least = guards.iter().filter_map(MutexGuard::remaining).min();
    println!("the least remaining life is {least:?}");
    assert_eq!(lost, 0);
    drop(guards);
    soon("all are released", locks.flush()).await;
    assert!(locks.keys("").await.unwrap().is_empty());
}
