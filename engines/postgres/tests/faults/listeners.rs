//! The connection that listens ends, while tickets wait.

use std::time::Duration;

use tenure_core::{Locks, MutexGuard, Result};
use tenure_servers::postgres::Server;
use tokio::task::JoinHandle;

use super::stage::{LONG, Stranger, connect, number, play, soon, until, until_line};

const LISTENERS: &str = "FROM pg_stat_activity WHERE query LIKE 'LISTEN %'";

fn waiter(locks: &Locks) -> JoinHandle<Result<MutexGuard>> {
    let mutex = locks.mutex("a").ttl(LONG);
    tokio::spawn(async move { mutex.lock().await })
}

async fn until_listening(server: &Server) {
    let count = format!("SELECT count(*) {LISTENERS}");
    until("a connection listens", async || number(server, &count) == 1).await;
}

#[test]
fn a_waiter_is_served_when_its_listening_connection_is_terminated() {
    play(async || {
        let server = Server::start().unwrap();
        let (holder, other) = (connect(server.url()).await, connect(server.url()).await);
        assert!(other.guarantees().push);
        let gremlin = Stranger::of(&server).await;
        for is_heard_again in [false, true, false, true] {
            let guard = holder.mutex("a").ttl(LONG).lock().await.unwrap();
            let waits = waiter(&other);
            until_line(&holder, "a", 2).await;
            until_listening(&server).await;
            gremlin.count(&format!("SELECT pg_terminate_backend(pid, 60000) {LISTENERS}")).await;
            if is_heard_again {
                until_listening(&server).await;
            }
            // No heartbeat falls into this test.
            guard.release().await.unwrap();
            soon("the waiter is served", waits).await.unwrap().unwrap().release().await.unwrap();
        }
    });
}

#[test]
fn waiters_are_served_while_listening_connections_are_terminated_again_and_again() {
    play(async || {
        const WAITERS: usize = 30;
        let server = Server::start().unwrap();
        let clients = [connect(server.url()).await, connect(server.url()).await];
        let guard = clients[0].mutex("a").ttl(LONG).lock().await.unwrap();
        let waiters = (0..WAITERS).map(|at| {
            let mutex = clients[at % 2].mutex("a").ttl(LONG);
            tokio::spawn(async move { mutex.lock().await.unwrap().release().await })
        });
        let waiters: Vec<_> = waiters.collect();
        until_line(&clients[0], "a", WAITERS + 1).await;
        let gremlin = Stranger::of(&server).await;
        let terminate = format!("SELECT pg_terminate_backend(pid) {LISTENERS}");
        let ends = tokio::spawn(async move {
            loop {
                gremlin.count(&terminate).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        guard.release().await.unwrap();
        for waiter in waiters {
            soon("it is served", waiter).await.unwrap().unwrap();
        }
        ends.abort();
    });
}
