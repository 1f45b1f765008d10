//! The holder's own transaction keeps its successor out, and is refused once a further ticket was
//! served.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, IsolationLevel, OptsBuilder, Transaction, TxOpts};
use tenure_core::layers::OnRuntime;
use tenure_core::{
    BackgroundRuntime, Engine as _, Error, ErrorKind, Locks, Result, Runtime, Token, WaitMode,
};
use tenure_mysql::{HeldLine, HoldIn, MysqlStore};
use tenure_record::{RecordEngine, RecordStore as _};
use tenure_servers::mariadb::{Server, Setup};

use super::stage::{
    LONG, again, assert_refused, connect, key, number, play, soon, ticket, until, until_line,
};

/// Life of a lease that is to end within its test.
const TTL: Duration = Duration::from_millis(1500);
/// Life of a waiter's ticket that has to be renewed within its test.
const WAITER_TTL: Duration = Duration::from_secs(8);

pub(super) const LEVELS: [IsolationLevel; 4] = [
    IsolationLevel::ReadUncommitted,
    IsolationLevel::ReadCommitted,
    IsolationLevel::RepeatableRead,
    IsolationLevel::Serializable,
];
const WRITE: &str = "INSERT INTO locks.written VALUES ('first')";
const WRITTEN: &str = "SELECT count(*) FROM locks.written";
const NOW: &str = "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))";

/// How the holder's transaction ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Commit,
    Rollback,
    /// Its connection is closed.
    Closed,
}

#[test]
fn a_successor_is_served_after_the_end_of_the_transaction_and_not_before() {
    play(async || {
        for end in [End::Commit, End::Rollback, End::Closed] {
            let server = start();
            let line = a_holder_without_renewals(&server).await;
            let mut conn = session(&server).await;
            let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
            line.hold_in(&mut transaction).await.unwrap();
            transaction.query_drop(WRITE).await.unwrap();

            let other = connect(server.url()).await;
            let waits = tokio::spawn(async move { other.mutex("a").lock().await });
            until_kept_out(&server).await;
            assert!(!waits.is_finished());
            match end {
                End::Commit => transaction.commit().await.unwrap(),
                End::Rollback => transaction.rollback().await.unwrap(),
                End::Closed => {
                    drop(transaction);
                    conn.disconnect().await.unwrap();
                }
            }
            let next = soon("the waiter is served", waits).await.unwrap().unwrap();
            assert_eq!(number(&server, WRITTEN), i64::from(end == End::Commit), "{end:?}");
            assert_lost(hold(&line, &server).await);
            next.release().await.unwrap();
        }
    });
}

#[test]
fn waiters_keep_their_places_while_a_transaction_outlives_the_lease() {
    play(async || {
        let server = start();
        let line = a_holder_without_renewals(&server).await;
        let mut conn = session(&server).await;
        let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
        line.hold_in(&mut transaction).await.unwrap();
        let (other, third) = (connect(server.url()).await, connect(server.url()).await);
        let look = other.clone();
        let waits = tokio::spawn(async move { other.mutex("a").ttl(WAITER_TTL).lock().await });
        // The waiter has taken the holder's ticket out, and is not served.
        until_kept_out(&server).await;
        let joins = tokio::spawn(async move { third.mutex("a").lock().await });
        until_line(&look, "a", 2).await;
        // A try does not wait for the transaction.
        assert!(look.mutex("a").try_lock().await.unwrap().is_none());
        let over = number(&server, &format!("SELECT {NOW}")) + micros(WAITER_TTL);
        until("a ticket that is not renewed would be over", async || {
            number(&server, &format!("SELECT {NOW}")) > over
        })
        .await;
        assert!(!waits.is_finished() && !joins.is_finished());
        transaction.commit().await.unwrap();
        let next = soon("the first waiter is served", waits).await.unwrap().unwrap();
        let token = next.token();
        next.release().await.unwrap();
        let last = soon("the second waiter is served", joins).await.unwrap().unwrap();
        assert!(last.token() > token);
        last.release().await.unwrap();
    });
}

#[test]
fn a_release_inside_of_the_transaction_serves_the_next_after_its_end() {
    play(async || {
        // A ticket waits at the release, or comes afterwards.
        for waits in [true, false] {
            let server = start();
            let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
            let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
            let mut conn = session(&server).await;
            let mut transaction = began(&mut conn, IsolationLevel::ReadCommitted).await;
            guard.hold_in(&mut transaction).await.unwrap();
            transaction.query_drop(WRITE).await.unwrap();
            let join = async move { other.mutex("a").lock().await };
            let next = if waits {
                let next = tokio::spawn(join);
                until_line(&locks, "a", 2).await;
                guard.release().await.unwrap();
                next
            } else {
                guard.release().await.unwrap();
                tokio::spawn(join)
            };
            until_kept_out(&server).await;
            assert!(locks.mutex("a").try_lock().await.unwrap().is_none());
            assert!(!next.is_finished());
            transaction.commit().await.unwrap();
            let next = soon("the next is served", next).await.unwrap().unwrap();
            assert_eq!(number(&server, WRITTEN), 1);
            next.release().await.unwrap();
        }
    });
}

#[test]
fn renewals_and_joins_go_on_while_the_transaction_is_open() {
    play(async || {
        let server = start();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        let ends = || number(&server, "SELECT ends_us FROM locks.tenure_line");
        for level in LEVELS {
            let guard = locks.mutex("a").lock().await.unwrap();
            let mut conn = session(&server).await;
            let mut transaction = began(&mut conn, level).await;
            // It has its snapshot before the renewals.
            transaction.query_drop(WRITTEN).await.unwrap();
            guard.extend().await.unwrap();
            guard.hold_in(&mut transaction).await.unwrap();
            let before = ends();
            guard.extend().await.unwrap();
            assert!(ends() > before, "{level}");
            let mutex = other.mutex("a");
            let waits = tokio::spawn(async move { mutex.lock().await });
            until_line(&locks, "a", 2).await;
            guard.extend().await.unwrap();
            guard.hold_in(&mut transaction).await.unwrap();
            transaction.query_drop(WRITE).await.unwrap();
            assert!(!waits.is_finished());
            transaction.commit().await.unwrap();
            guard.release().await.unwrap();
            let next = soon("the waiter is served", waits).await.unwrap().unwrap();
            next.release().await.unwrap();
        }
    });
}

#[test]
fn a_token_that_is_older_than_that_of_a_served_ticket_is_refused() {
    play(async || {
        let server = start();
        let locks = connect(server.url()).await;
        let none = HeldLine::new(key("a"), Token::new(1).unwrap());
        assert_lost(hold(&none, &server).await);

        let first = locks.mutex("a").lock().await.unwrap();
        let old = first.held_line();
        hold(&old, &server).await.unwrap();
        first.release().await.unwrap();
        let second = locks.mutex("a").lock().await.unwrap();
        assert_lost(hold(&old, &server).await);
        hold(&second.held_line(), &server).await.unwrap();
        assert_lost(hold(&none, &server).await);
        let other = HeldLine::new(key("b"), second.token());
        assert_lost(hold(&other, &server).await);

        let own = locks.rwlock("a");
        let reads = tokio::spawn(async move { own.read().await });
        until_line(&locks, "a", 2).await;
        let was = second.held_line();
        second.release().await.unwrap();
        let reader = soon("the reader is served", reads).await.unwrap().unwrap();
        assert_lost(hold(&was, &server).await);
        reader.release().await.unwrap();
    });
}

#[test]
fn an_old_snapshot_does_not_hold_for_a_predecessor() {
    play(async || {
        let server = start();
        let locks = connect(server.url()).await;
        for level in LEVELS {
            let first = locks.mutex("a").lock().await.unwrap();
            let line = first.held_line();
            let mut conn = session(&server).await;
            let mut transaction = began(&mut conn, level).await;
            transaction.query_drop("SELECT count(*) FROM locks.written").await.unwrap();
            first.release().await.unwrap();
            let next = locks.mutex("a").lock().await.unwrap();
            assert_lost(line.hold_in(&mut transaction).await);
            let held = next.hold_in(&mut transaction).await;
            if level == IsolationLevel::RepeatableRead {
                // The snapshot is from before the acquisition.
                assert_lost(held);
            } else {
                held.unwrap();
            }
            transaction.rollback().await.unwrap();
            next.release().await.unwrap();
        }
    });
}

#[test]
fn a_held_line_is_not_swept_and_a_swept_line_is_refused() {
    play(async || {
        let server = start();
        let line = a_holder_without_renewals(&server).await;
        let mut conn = session(&server).await;
        let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
        line.hold_in(&mut transaction).await.unwrap();
        let over = format!("SELECT count(*) FROM locks.tenure_line WHERE ends_us < {NOW}");
        until("the lease is over", async || number(&server, &over) == 1).await;
        let engine = store(&server).await;
        let rows = "SELECT (SELECT count(*) FROM locks.tenure_line) * 10 + \
             (SELECT count(*) FROM locks.tenure_hold)";
        engine.inner().store().sweep(Duration::ZERO).await.unwrap();
        assert_eq!(number(&server, rows), 11);
        transaction.commit().await.unwrap();
        until("the line is swept", async || {
            engine.inner().store().sweep(Duration::ZERO).await.unwrap();
            number(&server, rows) == 0
        })
        .await;
        assert_lost(hold(&line, &server).await);
    });
}

#[test]
fn each_exclusive_guard_holds_and_a_loss_that_the_client_knows_is_told() {
    play(async || {
        let server = start();
        let locks = connect(server.url()).await;
        let mutex = locks.mutex("mutex").lock().await.unwrap();
        let writer = locks.rwlock("writer").write().await.unwrap();
        let leader = locks.election("leader").campaign().await.unwrap();
        // The first `hold_in` fixes the snapshot.
        let mut conn = session(&server).await;
        let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
        mutex.hold_in(&mut transaction).await.unwrap();
        writer.hold_in(&mut transaction).await.unwrap();
        leader.hold_in(&mut transaction).await.unwrap();
        // A writer that becomes a reader lets other readers in after the transaction.
        let was = writer.held_line();
        let reader = writer.downgrade().await.unwrap();
        let other = locks.rwlock("writer");
        let reads = tokio::spawn(async move { other.read().await });
        until_line(&locks, "writer", 2).await;
        assert!(!reads.is_finished());
        transaction.commit().await.unwrap();
        let second = soon("the reader is served", reads).await.unwrap().unwrap();
        assert_lost(hold(&was, &server).await);
        drop((reader, second));

        locks.force_unlock("mutex", mutex.id()).await.unwrap();
        until("the holder knows", async || mutex.check().is_err() || mutex.extend().await.is_err())
            .await;
        let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
        assert_lost(mutex.hold_in(&mut transaction).await);
        transaction.rollback().await.unwrap();
        leader.release().await.unwrap();
    });
}

#[test]
fn holders_with_transactions_take_turns_without_a_deadlock() {
    play(async || {
        const CLIENTS: usize = 4;
        const TURNS: i64 = 10;
        let server = start();
        server.sql("CREATE TABLE locks.total AS SELECT 0 AS sum").unwrap();
        let mut tasks = Vec::new();
        for at in 0..CLIENTS {
            let (locks, mut conn) = (connect(server.url()).await, session(&server).await);
            let level = LEVELS[at % LEVELS.len()];
            tasks.push(tokio::spawn(async move {
                for _ in 0..TURNS {
                    add_one(&locks, &mut conn, level).await;
                }
            }));
        }
        for task in tasks {
            soon("the turns end", task).await.unwrap();
        }
        let sum = number(&server, "SELECT sum FROM locks.total");
        assert_eq!(sum, TURNS * i64::try_from(CLIENTS).unwrap());
    });
}

/// Adds one by a read and a write, which only the lock keeps together.
async fn add_one(locks: &Locks, conn: &mut Conn, level: IsolationLevel) {
    let mutex = locks.mutex("a").ttl(LONG);
    let guard = again(|| mutex.lock()).await;
    let mut transaction = began(conn, level).await;
    guard.hold_in(&mut transaction).await.unwrap();
    let sum: i64 = transaction.query_first("SELECT sum FROM total").await.unwrap().unwrap();
    transaction.query_drop(format!("UPDATE total SET sum = {}", sum + 1)).await.unwrap();
    transaction.commit().await.unwrap();
    // A release whose answer is late was carried out.
    let released = guard.release().await;
    assert!(released.as_ref().err().is_none_or(Error::is_retryable), "{released:?}");
}

#[test]
fn a_lock_that_another_session_keeps_on_the_row_is_waited_for() {
    play(async || {
        let server = start();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let mut stranger = session(&server).await;
        let row = "BEGIN; SELECT 1 FROM tenure_hold WHERE `key` = 'a' FOR UPDATE";
        stranger.query_drop(row).await.unwrap();
        let mut conn = session(&server).await;
        conn.query_drop("SET innodb_lock_wait_timeout = 1").await.unwrap();
        let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
        let answer = guard.hold_in(&mut transaction).await;
        assert_refused(answer, ErrorKind::Unavailable, &["roll back and repeat"]);
        transaction.rollback().await.unwrap();
        stranger.query_drop("ROLLBACK").await.unwrap();
        hold(&guard.held_line(), &server).await.unwrap();
    });
}

#[test]
fn a_database_without_the_tables_and_a_user_without_rights_are_told() {
    play(async || {
        let server = start();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let other = guard.held_line().prefix("other_").unwrap();
        let told = ["does not have the tables of the locks", "other_hold"];
        assert_refused(hold(&other, &server).await, ErrorKind::Rejected, &told);
        assert!(other.prefix("o`").is_err());

        server.sql("CREATE USER clerk; GRANT SELECT ON locks.written TO clerk").unwrap();
        let mut conn = session_of(&server, "clerk").await;
        let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
        let told = ["may not lock the row", "README"];
        assert_refused(guard.hold_in(&mut transaction).await, ErrorKind::Rejected, &told);
        transaction.rollback().await.unwrap();
        server.sql("GRANT SELECT ON locks.tenure_hold TO clerk").unwrap();
        let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
        guard.hold_in(&mut transaction).await.unwrap();
        transaction.commit().await.unwrap();
    });
}

/// A server with a table of the holder's.
pub(super) fn start() -> Server {
    let server = Setup::new().start().unwrap();
    server.sql("CREATE TABLE locks.written (step VARCHAR(9)) ENGINE=InnoDB").unwrap();
    server
}

pub(super) async fn session(server: &Server) -> Conn {
    session_of(server, "root").await
}

async fn session_of(server: &Server, user: &str) -> Conn {
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(server.port())
        .user(Some(user))
        .db_name(Some("locks"))
        .prefer_socket(false);
    Conn::new(options).await.unwrap()
}

pub(super) async fn began(conn: &mut Conn, level: IsolationLevel) -> Transaction<'_> {
    let mut options = TxOpts::default();
    options.with_isolation_level(level);
    conn.start_transaction(options).await.unwrap()
}

/// Holds the line in a transaction for a moment.
async fn hold(line: &HeldLine, server: &Server) -> Result<()> {
    let mut conn = session(server).await;
    let mut transaction = began(&mut conn, IsolationLevel::RepeatableRead).await;
    let held = line.hold_in(&mut transaction).await;
    transaction.rollback().await.unwrap();
    held
}

/// Waits until the line has a ticket, and no ticket is served.
async fn until_kept_out(server: &Server) {
    let waits = "SELECT count(*) FROM locks.tenure_line WHERE holder = 0 AND tickets <> ''";
    until("a ticket is kept out", async || number(server, waits) == 1).await;
}

async fn store(server: &Server) -> OnRuntime<RecordEngine<MysqlStore>> {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    tenure_mysql::engine(&server.url(), host).await.unwrap()
}

/// A ticket that holds, and is never renewed.
async fn a_holder_without_renewals(server: &Server) -> HeldLine {
    let engine = store(server).await;
    let place = engine.join(&ticket("a", TTL), WaitMode::NoWait).await.unwrap().unwrap();
    HeldLine::new(key("a"), Token::new(place.number).unwrap())
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap()
}

#[track_caller]
pub(super) fn assert_lost(held: Result<()>) {
    let error = held.expect_err("the lock is lost");
    assert!(error.is_lost(), "{error:?}");
}
