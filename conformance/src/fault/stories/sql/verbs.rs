//! Every verb of a client, for a server or a session with unusual settings.

use tenure_core::{Locks, OnceOutcome};

use super::{LONG, SqlServer, connect};
use crate::fault::stage::{again, at_last, soon, until_line};

/// Calls each verb, and hands a lock over between two clients.
pub async fn call_each_verb<S: SqlServer>(url: &str) {
    let (locks, other) = (connect::<S>(url).await, connect::<S>(url).await);
    let mutex = locks.mutex("a").ttl(LONG);
    let guard = at_last("it is locked", async || mutex.lock().await).await;
    at_last("it renews", async || guard.extend().await).await;
    let waiter = tokio::spawn({
        let mutex = other.mutex("a").ttl(LONG);
        async move { again(|| mutex.lock()).await }
    });
    until_line(&locks, "a", 2).await;
    let keys = at_last("the keys are read", async || locks.keys("a").await).await;
    assert_eq!(keys.len(), 1);
    let token = guard.token();
    drop(guard);
    let next = soon("the waiter is served", waiter).await.unwrap();
    assert!(next.token() > token);
    drop(next);
    until_line(&locks, "a", 0).await;
    let sequence = locks.sequence("s");
    let first = at_last("a number", async || sequence.next().await).await;
    assert!(at_last("a number", async || sequence.next().await).await > first);
    let counter = locks.counter("c").window(LONG);
    let value = at_last("it counts", async || counter.add(2).await).await;
    assert!(value.allowed && value.value >= 2, "{value:?}");
    let once = locks.once("o").slot("1");
    let ran = at_last("it runs", async || once.run(async |_, _| Ok::<_, ()>(())).await).await;
    assert!(matches!(ran, OnceOutcome::Done(()) | OnceOutcome::Over(_)), "{ran:?}");
    meet(&[locks, other], S::MEETING).await;
}

/// Many tasks of two clients meet at one row.
async fn meet(clients: &[Locks; 2], (tasks, rounds): (usize, u32)) {
    let tasks = (0..tasks).map(|at| {
        let locks = clients[at % 2].clone();
        tokio::spawn(async move {
            for _ in 0..rounds {
                let mutex = locks.mutex("b").ttl(LONG);
                drop(again(|| mutex.lock()).await);
                let sequence = locks.sequence("t");
                again(|| sequence.next()).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        soon("the task ends", task).await.unwrap();
    }
    until_line(&clients[0], "b", 0).await;
}
