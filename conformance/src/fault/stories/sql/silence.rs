//! The server does not answer: every call returns in time, and what a client keeps is bounded.

use std::time::Instant;

use tenure_core::ErrorKind;
use tokio::task::JoinSet;

use super::{LONG, SqlServer, connect};
use crate::fault::stage::{PATIENCE, again, at_last, soon, until, until_line};

/// One for the statements, and one that listens.
const CONNECTIONS_MAX: i64 = 2;

/// Forty calls of a frozen server fail in time, and leave no ticket and no connection.
pub async fn forty_callers_of_a_frozen_server_have_their_answers_in_time_and_leave_nothing<
    S: SqlServer,
>(
    server: &S,
) {
    let locks = connect::<S>(format!("{}?timeout=500ms", server.url())).await;
    let within = locks.guarantees().answers_within;
    let mutex = locks.mutex("held").ttl(LONG);
    let held = at_last("it is locked", async || mutex.lock().await).await;
    let waiter = tokio::spawn({
        let mutex = locks.mutex("held").ttl(LONG);
        async move { again(|| mutex.lock()).await }
    });
    until_line(&locks, "held", 2).await;
    for round in 0..3 {
        server.freeze();
        let mut callers = JoinSet::new();
        for caller in 0..40 {
            let locks = locks.clone();
            callers.spawn(async move {
                let key = format!("{round} {caller}");
                let mutex = locks.mutex(&key).ttl(LONG);
                let asked = Instant::now();
                let error = match caller % 4 {
                    0 => mutex.lock().await.map(drop).unwrap_err(),
                    1 => mutex.try_lock().await.map(drop).unwrap_err(),
                    2 => locks.line(key).await.map(drop).unwrap_err(),
                    _ => locks.sequence(key).next().await.map(drop).unwrap_err(),
                };
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                asked.elapsed()
            });
        }
        while let Some(took) = soon("they are answered", callers.join_next()).await {
            let took = took.unwrap();
            assert!(took < within + PATIENCE / 20, "{took:?} is more than {within:?}");
        }
        server.thaw();
        at_last("it answers again", async || locks.line("held").await).await;
        until("the connections of the frozen time have ended", async || {
            server.connections() <= CONNECTIONS_MAX
        })
        .await;
        for caller in 0..40 {
            until_line(&locks, &format!("{round} {caller}"), 0).await;
        }
    }
    held.check().unwrap();
    at_last("it renews", async || held.extend().await).await;
    drop(held);
    let next = soon("the waiter is served", waiter).await.unwrap();
    next.check().unwrap();
    assert!(server.connections() <= CONNECTIONS_MAX);
}
