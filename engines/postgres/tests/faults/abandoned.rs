//! Statements that run into the time limit of their client end on the server as well, and so do
//! the connections of a client that closes.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tenure_core::layers::AnyEngine;
use tenure_core::{Engine as _, WaitMode};
use tenure_servers::postgres::{Mode, PGBOUNCER, Pooler, Server, Setup};

use super::stage::{
    LONG, Stranger, at_last, connect, engine, number, play, play_with, soon, ticket, until,
    until_line,
};

/// Maximum connections of a client whose requests fail: the one in use, and those that it gives up.
const CONNECTIONS_MAX: i64 = 12;
/// Time for which the requests fail. In this time the client opens more connections than that.
const FAILS_FOR: Duration = Duration::from_secs(10);
const CALLERS: usize = 24;
const LOCKS_LINES: &str = "BEGIN; LOCK TABLE tenure.line IN ACCESS EXCLUSIVE MODE";

/// Returns the number of connections of this client.
fn connections_of(server: &Server, client: &str) -> i64 {
    number(
        server,
        &format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{client}'"),
    )
}

/// Asks for different keys at the same time without success, and asserts that the server keeps few
/// connections of this client.
async fn asks_and_fails(server: &Server, client: &str, engine: &AnyEngine) {
    let began = Instant::now();
    let asks = (0..CALLERS).map(|caller| {
        let (engine, ticket) = (engine.clone(), ticket(&format!("{client} {caller}"), LONG));
        tokio::spawn(async move {
            while began.elapsed() < FAILS_FOR {
                engine.join(&ticket, WaitMode::Wait).await.expect_err("no lock is granted");
                // Between two connections, requests are refused at once.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
    });
    let asks: Vec<_> = asks.collect();
    while began.elapsed() < FAILS_FOR {
        let count = connections_of(server, client);
        assert!(count <= CONNECTIONS_MAX, "{client} has {count} connections");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for asked in asks {
        soon("the caller is answered", asked).await.unwrap();
    }
}

/// Waits until this client takes a lock, and has one connection for it.
async fn until_well(server: &Server, client: &str, engine: &AnyEngine) {
    let ticket = ticket(client, LONG);
    at_last("it is locked", async || engine.join(&ticket, WaitMode::Wait).await).await;
    until("one connection is left", async || connections_of(server, client) == 1).await;
}

#[test]
fn statements_behind_a_locked_table_leave_few_connections() {
    play(async || {
        let server = Setup::new().tls().start().unwrap();
        let by_tls = format!("{}&timeout=500ms&application_name=by-tls", server.url());
        let (port, folder) = (server.port(), server.folder().display());
        let by_socket = format!(
            "postgres://postgres@localhost:{port}/postgres?host={folder}&timeout=500ms&application_name=by-socket"
        );
        let (by_tls, by_socket) = (engine(&by_tls).await, engine(&by_socket).await);
        let stranger = Stranger::by_socket(&server).await;
        stranger.sql(LOCKS_LINES).await;
        tokio::join!(
            asks_and_fails(&server, "by-tls", &by_tls),
            asks_and_fails(&server, "by-socket", &by_socket),
        );
        stranger.sql("ROLLBACK").await;
        until_well(&server, "by-tls", &by_tls).await;
        until_well(&server, "by-socket", &by_socket).await;
    });
}

#[test]
fn statements_through_a_pooler_behind_a_locked_table_leave_few_connections() {
    play_with(&[PGBOUNCER], async || {
        let server = Server::start().unwrap();
        let pooler = Pooler::before(&server, Mode::Transaction).unwrap();
        let url = pooler.url();
        let between = if url.contains('?') { '&' } else { '?' };
        let engine = engine(&format!("{url}{between}timeout=500ms")).await;
        let stranger = Stranger::of(&server).await;
        stranger.sql(LOCKS_LINES).await;
        asks_and_fails(&server, "tenure", &engine).await;
        stranger.sql("ROLLBACK").await;
        // The pooler keeps its connections, and has survived.
        let ticket = ticket("well", LONG);
        at_last("it is locked", async || engine.join(&ticket, WaitMode::Wait).await).await;
    });
}

#[test]
fn statements_that_wait_for_a_standby_leave_few_connections() {
    play(async || {
        let server = Server::start().unwrap();
        let engine = engine(&format!("{}?timeout=500ms", server.url())).await;
        let standby = server.standby(true).unwrap();
        standby.freeze().unwrap();
        asks_and_fails(&server, "tenure", &engine).await;
        standby.thaw().unwrap();
        until_well(&server, "tenure", &engine).await;
    });
}

#[test]
fn the_connections_of_a_client_that_closes_end_once_its_notices_are_sent() {
    play(async || {
        let server = Server::start().unwrap();
        let clients = ["one", "two", "three"]
            .map(|name| connect(format!("{}?application_name={name}", server.url())));
        let clients = join_all(clients).await;
        let held = clients[0].mutex("a").ttl(LONG).lock().await.unwrap();
        let mut waiters = Vec::new();
        for (at, client) in clients.iter().enumerate().skip(1) {
            let mutex = client.mutex("a").ttl(LONG);
            waiters.push(tokio::spawn(async move { mutex.lock().await }));
            until_line(&clients[0], "a", at + 1).await;
        }
        until("both listen", async || {
            connections_of(&server, "two") == 2 && connections_of(&server, "three") == 2
        })
        .await;
        // No heartbeat falls into this test: the next waiter needs the notice of the release.
        held.release().await.unwrap();
        soon("it closes", clients[0].close()).await;
        let next = soon("the waiter is served", waiters.remove(0)).await.unwrap().unwrap();
        soon("it closes while it waits", clients[2].close()).await;
        soon("it is refused", waiters.remove(0)).await.unwrap().unwrap_err();
        for name in ["one", "three"] {
            until("its connections have ended", async || connections_of(&server, name) == 0).await;
        }
        next.release().await.unwrap();
    });
}
