//! The statement of a held line: when it holds, and what it locks if it is refused.

use mysql_async::IsolationLevel;
use mysql_async::prelude::Queryable as _;
use tenure_core::Token;
use tenure_mysql::{HeldLine, HoldIn as _};

use super::stage::{LONG, connect, key, play, row_waits};
use super::transaction::{LEVELS, assert_lost, began, session, start};

#[test]
fn the_statement_of_a_held_line_works_in_another_client() {
    play(async || {
        let server = start();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a 'quoted' \u{9501}").ttl(LONG).lock().await.unwrap();
        let line = guard.held_line();
        let mut conn = session(&server).await;
        let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
        let parameters = (line.key(), line.token());
        let held: Option<i64> = transaction.exec_first(line.statement(), parameters).await.unwrap();
        assert_eq!(held, Some(1));
        guard.hold_in(&mut transaction).await.unwrap();
        transaction.rollback().await.unwrap();
    });
}

#[test]
fn a_connection_without_an_open_transaction_does_not_hold() {
    play(async || {
        let server = start();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let line = guard.held_line();
        let parameters = || (line.key(), line.token());
        let mut conn = session(&server).await;
        let held: Option<i64> = conn.exec_first(line.statement(), parameters()).await.unwrap();
        assert_eq!(held, None, "each statement commits by itself");

        let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
        guard.hold_in(&mut transaction).await.unwrap();
        transaction.query_drop("CREATE TABLE locks.made (id INT)").await.unwrap();
        assert_lost(guard.hold_in(&mut transaction).await);
        transaction.rollback().await.unwrap();

        conn.query_drop("SET autocommit = 0").await.unwrap();
        let held: Option<i64> = conn.exec_first(line.statement(), parameters()).await.unwrap();
        assert_eq!(held, Some(1), "the statement begins a transaction");
        conn.query_drop("ROLLBACK").await.unwrap();
    });
}

#[test]
fn a_refused_hold_of_an_absent_key_delays_no_join_of_a_neighbour() {
    play(async || {
        let server = start();
        let locks = connect(server.url()).await;
        for name in ["a", "z"] {
            locks.mutex(name).ttl(LONG).lock().await.unwrap().release().await.unwrap();
        }
        for (at, level) in LEVELS.into_iter().enumerate() {
            if level == IsolationLevel::Serializable {
                // Each read locks what it reads, and the gap of what it did not find.
                continue;
            }
            let absent = HeldLine::new(key("m"), Token::new(1).unwrap());
            let mut conn = session(&server).await;
            let mut transaction = began(&mut conn, level).await;
            assert_lost(absent.hold_in(&mut transaction).await);
            let before = row_waits(&server);
            let neighbour = locks.mutex(format!("l{at}")).try_lock().await.unwrap();
            assert!(neighbour.is_some(), "{level}");
            assert_eq!(row_waits(&server), before, "{level}: the join waited");
            transaction.rollback().await.unwrap();
        }
    });
}

#[test]
fn a_rollback_to_a_savepoint_after_the_hold_keeps_it() {
    play(async || {
        let server = start();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let (mut conn, mut other) = (session(&server).await, session(&server).await);
        let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
        guard.hold_in(&mut transaction).await.unwrap();
        transaction.query_drop("SAVEPOINT later").await.unwrap();
        transaction.query_drop("INSERT INTO locks.written VALUES ('first')").await.unwrap();
        transaction.query_drop("ROLLBACK TO SAVEPOINT later").await.unwrap();
        let row = "SELECT count(*) FROM tenure_hold WHERE `key` = 'a' FOR UPDATE SKIP LOCKED";
        assert_eq!(other.query_first(row).await.unwrap(), Some(0));
        transaction.rollback().await.unwrap();
        assert_eq!(other.query_first(row).await.unwrap(), Some(1));
    });
}
