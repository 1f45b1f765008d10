//! Waiters are woken by `KILL QUERY`, and without it a moment later.

use tenure_core::{Locks, MutexGuard, Result};
use tenure_servers::mariadb::Server;
use tokio::task::JoinHandle;

use super::stage::{LONG, Stranger, connect, number, play, soon, until, until_line};

/// The statements that wait for notices.
const LISTENERS: &str = "FROM information_schema.PROCESSLIST \
     WHERE INFO LIKE 'SELECT 1 AS tenure\\_listens\\_%' AND DB = 'locks' AND STATE = 'User sleep'";
/// The uses of `KILL` since the server started.
const KILLS: &str =
    "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'COM_KILL'";

fn waiter(locks: &Locks) -> JoinHandle<Result<MutexGuard>> {
    let mutex = locks.mutex("a").ttl(LONG);
    tokio::spawn(async move { mutex.lock().await })
}

/// Waits until a client listens.
async fn until_listening(server: &Server) {
    let listeners = format!("SELECT count(*) {LISTENERS}");
    until("a client listens", async || number(server, &listeners) == 1).await;
}

/// Hands a lock over from one client to another, and returns how often `KILL` was used. No
/// heartbeat falls into this time.
async fn hand_over(server: &Server, [holder, other]: [&Locks; 2]) -> i64 {
    let guard = holder.mutex("a").ttl(LONG).lock().await.unwrap();
    let waits = waiter(other);
    until_line(holder, "a", 2).await;
    until_listening(server).await;
    let before = number(server, KILLS);
    guard.release().await.unwrap();
    soon("the waiter is served", waits).await.unwrap().unwrap().release().await.unwrap();
    number(server, KILLS) - before
}

#[test]
fn a_waiter_is_woken_by_the_client_that_releases() {
    play(async || {
        const WOKEN: u32 = 5;
        let server = Server::start().unwrap();
        let (holder, other) = (connect(server.url()).await, connect(server.url()).await);
        assert!(other.guarantees().push && other.guarantees().warnings.len() == 1);
        let mut woken = 0;
        // A sleep that ends by itself just before the release needs no `KILL`.
        for _ in 0..WOKEN * 10 {
            woken += u32::from(hand_over(&server, [&holder, &other]).await > 0);
            if woken == WOKEN {
                break;
            }
        }
        assert_eq!(woken, WOKEN, "no sleep was ended");
        let notices = "SELECT count(*) FROM locks.tenure_notice";
        until("the notices are deleted", async || number(&server, notices) == 0).await;
    });
}

#[test]
fn a_waiter_is_served_although_its_client_cannot_be_woken() {
    play(async || {
        let server = Server::start().unwrap();
        let other = connect(server.url()).await;
        // This user sees no statement of another, and may end none.
        let sql =
            "CREATE USER clerk; GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON locks.* TO clerk";
        server.sql(sql).unwrap();
        let holder = connect(server.url().replace("root@", "clerk@")).await;
        for _ in 0..4 {
            assert_eq!(hand_over(&server, [&holder, &other]).await, 0);
        }
        // This one sees all, and may end none of another.
        server.sql("GRANT PROCESS ON *.* TO clerk").unwrap();
        let holder = connect(server.url().replace("root@", "clerk@")).await;
        for _ in 0..4 {
            hand_over(&server, [&holder, &other]).await;
        }
        // The call itself fails behind the commit, and the release is confirmed nevertheless.
        server.sql("DROP PROCEDURE locks.tenure_ring_1").unwrap();
        hand_over(&server, [&holder, &other]).await;
    });
}

#[test]
fn a_waiter_is_served_when_its_listening_connection_is_killed() {
    play(async || {
        let server = Server::start().unwrap();
        let (holder, other) = (connect(server.url()).await, connect(server.url()).await);
        for is_heard_again in [false, true, false, true] {
            let guard = holder.mutex("a").ttl(LONG).lock().await.unwrap();
            let waits = waiter(&other);
            until_line(&holder, "a", 2).await;
            until_listening(&server).await;
            let newest = format!("SELECT ifnull(max(ID), 0) {LISTENERS}");
            let before = number(&server, &newest);
            for killed in server.sql(&format!("SELECT ID {LISTENERS}")).unwrap().lines() {
                server.sql(&format!("KILL {killed}")).unwrap();
            }
            if is_heard_again {
                let others = format!("SELECT count(*) {LISTENERS} AND ID > {before}");
                until("another listens", async || number(&server, &others) == 1).await;
            }
            guard.release().await.unwrap();
            soon("the waiter is served", waits).await.unwrap().unwrap().release().await.unwrap();
        }
    });
}

#[test]
fn a_client_without_tickets_has_one_connection() {
    play(async || {
        const CONNECTIONS: &str =
            "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = 'locks'";
        let server = Server::start().unwrap();
        let (holder, other) = (connect(server.url()).await, connect(server.url()).await);
        hand_over(&server, [&holder, &other]).await;
        assert!(number(&server, CONNECTIONS) > 2);
        until("it listens no more", async || number(&server, CONNECTIONS) == 2).await;
        hand_over(&server, [&holder, &other]).await;
    });
}

#[test]
fn no_statement_of_a_stranger_is_ended() {
    play(async || {
        let server = Server::start().unwrap();
        let (holder, other) = (connect(server.url()).await, connect(server.url()).await);
        let statements = [
            "SELECT sleep(3)",
            "SELECT 1 AS tenure_listens_0000000000000000, sleep(3)",
            "SELECT sleep(3) AS tenure_listens_0000000000000000",
        ];
        let mut strangers = Vec::new();
        for statement in statements {
            let mut stranger = Stranger::of(&server).await;
            strangers.push(tokio::spawn(async move { stranger.sql(statement).await }));
        }
        while strangers.iter().any(|stranger| !stranger.is_finished()) {
            hand_over(&server, [&holder, &other]).await;
        }
        for stranger in strangers {
            // A statement that was ended would be an error.
            stranger.await.unwrap();
        }
    });
}
