//! Futures are dropped in the middle: no ticket stays, and no transaction is open.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;

use super::{LONG, SqlServer, connect};
use crate::fault::stage::{at_last, until, until_line};

/// Maximum polls before a future is dropped.
const POLLS_MAX: usize = 8;
/// Those of two clients, which listen.
const CONNECTIONS_MAX: i64 = 4;

/// Polls a future this many times, and drops it.
async fn dropped_after<T>(polls: usize, verb: impl Future<Output = T>) {
    let mut verb = pin!(verb);
    let mut polled = 0;
    let dropped = poll_fn(|context| {
        polled += 1;
        if polled > polls {
            return Poll::Ready(());
        }
        verb.as_mut().poll(context).map(drop)
    });
    // A waiter of a lock that is held is not polled again.
    let _ = timeout(Duration::from_millis(50), dropped).await;
}

/// Each verb is dropped after zero to eight polls.
pub async fn verbs_that_are_dropped_at_any_await_leave_nothing_behind<S: SqlServer>(server: &S) {
    let (locks, other) = (connect::<S>(server.url()).await, connect::<S>(server.url()).await);
    let held = locks.mutex("held").ttl(LONG).lock().await.unwrap();
    for round in 0..4 {
        for polls in 0..=POLLS_MAX {
            let name = format!("k{}", (round + polls) % 3);
            let mutex = locks.mutex(&name).ttl(LONG);
            dropped_after(polls, mutex.lock()).await;
            dropped_after(polls, mutex.try_lock()).await;
            dropped_after(polls, other.mutex("held").ttl(LONG).lock()).await;
            dropped_after(polls, other.mutex("held").ttl(LONG).try_lock_for(LONG)).await;
            dropped_after(polls, held.extend()).await;
            dropped_after(polls, locks.line(&name)).await;
            dropped_after(polls, locks.keys("")).await;
            dropped_after(polls, locks.sequence("s").next()).await;
            dropped_after(polls, locks.counter("c").window(LONG).add(1)).await;
            let once = locks.once("o").slot(&name).ttl(LONG);
            dropped_after(polls, once.run(async |_, _| Ok::<_, ()>(()))).await;
            dropped_after(polls, S::try_connect(&server.url())).await;
            let tables = S::other_tables(&format!("s{round}x{polls}"));
            let elsewhere = format!("{}?{tables}", server.url());
            dropped_after(polls, S::try_connect(&elsewhere)).await;
            let guard = at_last("it is locked", async || mutex.lock().await).await;
            dropped_after(polls, guard.release()).await;
            server.check_connections();
        }
    }
    for key in ["k0", "k1", "k2", "o"] {
        until_line(&other, key, 0).await;
    }
    until_line(&other, "held", 1).await;
    until("the connections of the dropped have ended", async || {
        server.connections() <= CONNECTIONS_MAX
    })
    .await;
    server.check_connections();
    until("no transaction is open", async || server.transactions().await == 0).await;
    at_last("it is still held", async || held.extend().await).await;
}
