//! The connection that listens ends, while tickets wait.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tenure_conformance::fault::{Act, Match, Proxy};
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

/// Returns a proxy, and the URL of a client whose statements go through it. Its notifications come
/// from the server itself.
fn behind_proxy(server: &Server, timeout: &str) -> (Proxy, String) {
    let port = server.port();
    let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    let address = proxy.address();
    let options = format!("timeout={timeout}&notify_host=127.0.0.1:{port}");
    (proxy, format!("postgres://postgres@{address}/postgres?{options}"))
}

/// Returns the name of the channel on which the only listener listens.
async fn channel(server: &Server) -> String {
    until_listening(server).await;
    let query = server.sql(&format!("SELECT query {LISTENERS}")).unwrap();
    query.split('"').nth(1).expect("it is in quotes").to_owned()
}

#[test]
fn a_client_listens_again_after_it_has_lost_notices() {
    play(async || {
        /// More than wait for their reader.
        const NOTICES: u32 = 5000;
        let server = Server::start().unwrap();
        let (proxy, url) = behind_proxy(&server, "1h");
        let (holder, other) = (connect(server.url()).await, connect(url).await);
        let guard = holder.mutex("a").ttl(LONG).lock().await.unwrap();
        let waits = waiter(&other);
        until_line(&holder, "a", 2).await;
        let channel = channel(&server).await;
        let listener = number(&server, &format!("SELECT pid {LISTENERS}"));
        // Its reader waits for this answer, and reads nothing.
        let echo = proxy.on(Match::request_containing("pg_notify"), Act::HoldReply);
        until("a notice to itself is on its way", async || echo.is_hit()).await;
        let notices = format!(
            "SELECT count(pg_notify('{channel}', at::text)) FROM generate_series(1, {NOTICES}) at"
        );
        server.sql(&notices).unwrap();
        let count = format!("SELECT count(*) {LISTENERS} AND pid = {listener}");
        until("the connection has ended", async || number(&server, &count) == 0).await;
        echo.release();
        until_listening(&server).await;
        guard.release().await.unwrap();
        soon("the waiter is served", waits).await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn a_client_sends_itself_few_notices() {
    play(async || {
        /// The pause between two of them is 10 s.
        const THREE: Duration = Duration::from_secs(15);
        let server = Server::start().unwrap();
        let (proxy, url) = behind_proxy(&server, "2s");
        let (holder, other) = (connect(server.url()).await, connect(url).await);
        let _guard = holder.mutex("a").ttl(LONG).lock().await.unwrap();
        let waits = waiter(&other);
        until_line(&holder, "a", 2).await;
        until_listening(&server).await;
        let sends_itself_a_notice = async || {
            let notice = proxy.on(Match::request_containing("pg_notify"), Act::HoldReply);
            until("it sends itself a notice", async || notice.is_hit()).await;
            notice.release();
            Instant::now()
        };
        let first = sends_itself_a_notice().await;
        sends_itself_a_notice().await;
        let took = sends_itself_a_notice().await - first;
        assert!(took > THREE, "three within {took:?}");
        waits.abort();
    });
}
