//! The holder's own transaction keeps its successor out, and is refused once the lock is lost.
#![cfg(unix)]

#[path = "common/bench.rs"]
mod bench;

use std::sync::Arc;
use std::time::Duration;

use bench::Bench;
use tenure_core::layers::OnRuntime;
use tenure_core::{
    BackgroundRuntime, Engine as _, ErrorKind, Key, Result, Runtime, Share, Ticket, Token, WaitMode,
};
use tenure_postgres::{HeldLine, HoldIn, PostgresStore};
use tenure_record::{RecordEngine, RecordStore as _};
use tenure_servers::postgres::{PGBOUNCER, POSTGRES};
use tokio_postgres::{Client, IsolationLevel, Transaction};

/// Life of a lease that is to end within its test.
const TTL: Duration = Duration::from_millis(1500);

/// Life of a waiter's ticket that has to be renewed within its test.
const WAITER_TTL: Duration = Duration::from_secs(8);

/// How the holder's transaction ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Commit,
    Rollback,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_is_served_after_the_commit_and_sees_it() {
    if let Some(bench) = bench().await {
        a_lease_ends_under_a_transaction(bench, End::Commit).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_is_served_after_the_rollback() {
    if let Some(bench) = bench().await {
        a_lease_ends_under_a_transaction(bench, End::Rollback).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_behind_a_pooler_keeps_the_successor_out() {
    let pooled = "TENURE_TEST_POSTGRES_PGBOUNCER_URL";
    if let Some(bench) = Bench::at(pooled, &[POSTGRES, PGBOUNCER]).await {
        a_lease_ends_under_a_transaction(bench, End::Commit).await;
    }
}

/// The holder's client is gone and its transaction is open when its lease ends.
async fn a_lease_ends_under_a_transaction(bench: Bench, end: End) {
    let line = a_holder_without_renewals(&bench).await;
    let mut client = bench.connect().await;
    let transaction = client.transaction().await.unwrap();
    line.hold_in(&transaction).await.unwrap();
    let insert = bench.text("INSERT INTO {schema}.written VALUES ('first')");
    transaction.batch_execute(&insert).await.unwrap();

    let other = bench.locks().await;
    let waits = tokio::spawn(async move { other.mutex("k").lock().await });
    until_kept_out(&bench).await;
    // The lease has ended, and no other ticket holds.
    let holder = bench.number("SELECT holder FROM {schema}.line").await;
    assert!([0, line.token()].contains(&holder), "{holder}");
    assert!(!waits.is_finished());
    match end {
        End::Commit => transaction.commit().await.unwrap(),
        End::Rollback => transaction.rollback().await.unwrap(),
    }
    let next = waits.await.unwrap().unwrap();
    let written = bench.number("SELECT count(*) FROM {schema}.written").await;
    assert_eq!(written, i64::from(end == End::Commit));
    assert_lost(hold(&line, &mut client).await);
    next.release().await.unwrap();
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_keep_their_places_while_a_transaction_outlives_the_lease() {
    let Some(bench) = bench().await else { return };
    let line = a_holder_without_renewals(&bench).await;
    let mut client = bench.connect().await;
    let transaction = client.transaction().await.unwrap();
    line.hold_in(&transaction).await.unwrap();
    let (other, third) = (bench.locks().await, bench.locks().await);
    let waits = tokio::spawn(async move { other.mutex("k").ttl(WAITER_TTL).lock().await });
    // The waiter has taken the holder's ticket out, and is not served.
    bench.until("SELECT count(*) FROM {schema}.line WHERE holder = 0").await;
    let lives = i64::try_from(WAITER_TTL.as_micros()).unwrap();
    let now = "SELECT extract(epoch FROM clock_timestamp()) * 1000000";
    let over = bench.number(now).await + lives;
    let joins = tokio::spawn(async move { third.mutex("k").lock().await });
    bench.until(&format!("{now} - {over}")).await;
    assert!(!waits.is_finished() && !joins.is_finished());
    transaction.commit().await.unwrap();
    let next = waits.await.unwrap().unwrap();
    let token = next.token();
    next.release().await.unwrap();
    let last = joins.await.unwrap().unwrap();
    assert!(last.token() > token);
    last.release().await.unwrap();
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_inside_of_the_transaction_serves_the_next_after_its_end() {
    let Some(bench) = bench().await else { return };
    let (locks, other) = (bench.locks().await, bench.locks().await);
    let guard = locks.mutex("k").lock().await.unwrap();
    let mut client = bench.connect().await;
    let transaction = client.transaction().await.unwrap();
    line_of(&bench, &guard).hold_in(&transaction).await.unwrap();
    let insert = bench.text("INSERT INTO {schema}.written VALUES ('first')");
    transaction.batch_execute(&insert).await.unwrap();
    let waits = tokio::spawn(async move { other.mutex("k").lock().await });
    while locks.line("k").await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    let releasing = tokio::spawn(guard.release());
    until_kept_out(&bench).await;
    transaction.commit().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(bench.number("SELECT count(*) FROM {schema}.written").await, 1);
    // The time limit of the release may have come before the commit.
    if let Err(error) = releasing.await.unwrap() {
        assert!(error.is_retryable(), "{error}");
    }
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_line_is_not_taken_before_the_transaction_ends() {
    let Some(bench) = bench().await else { return };
    let (locks, other) = (bench.locks().await, bench.locks().await);
    let guard = locks.mutex("k").lock().await.unwrap();
    let mut client = bench.connect().await;
    let transaction = client.transaction().await.unwrap();
    line_of(&bench, &guard).hold_in(&transaction).await.unwrap();
    let insert = bench.text("INSERT INTO {schema}.written VALUES ('first')");
    transaction.batch_execute(&insert).await.unwrap();
    // Nothing waits, so the release passes.
    guard.release().await.unwrap();
    let waits = tokio::spawn(async move { other.mutex("k").lock().await });
    until_kept_out(&bench).await;
    transaction.commit().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(bench.number("SELECT count(*) FROM {schema}.written").await, 1);
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_and_joins_go_on_while_the_transaction_is_open() {
    let Some(bench) = bench().await else { return };
    let (locks, other) = (bench.locks().await, bench.locks().await);
    let guard = locks.mutex("k").lock().await.unwrap();
    let mut client = bench.connect().await;
    let transaction = client.transaction().await.unwrap();
    line_of(&bench, &guard).hold_in(&transaction).await.unwrap();
    let ends = "SELECT ends_us FROM {schema}.line";
    let before = bench.number(ends).await;
    guard.extend().await.unwrap();
    assert!(bench.number(ends).await > before);
    let waits = tokio::spawn(async move { other.mutex("k").lock().await });
    while locks.line("k").await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    guard.extend().await.unwrap();
    line_of(&bench, &guard).hold_in(&transaction).await.unwrap();
    assert!(!waits.is_finished());
    transaction.commit().await.unwrap();
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_not_the_holders_is_refused() {
    let Some(bench) = bench().await else { return };
    let locks = bench.locks().await;
    let mut client = bench.connect().await;
    let key = Key::new("k").unwrap();
    let none = HeldLine::new(key, Token::new(1).unwrap()).schema(bench.schema.as_str()).unwrap();
    assert_lost(hold(&none, &mut client).await);

    let first = locks.mutex("k").lock().await.unwrap();
    let old = line_of(&bench, &first);
    hold(&old, &mut client).await.unwrap();
    first.release().await.unwrap();
    assert_lost(hold(&old, &mut client).await);

    let second = locks.mutex("k").lock().await.unwrap();
    assert_lost(hold(&old, &mut client).await);
    hold(&line_of(&bench, &second), &mut client).await.unwrap();
    assert_lost(hold(&none, &mut client).await);
    second.release().await.unwrap();
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swept_line_is_refused_and_a_held_one_is_not_swept() {
    let Some(bench) = bench().await else { return };
    let line = a_holder_without_renewals(&bench).await;
    let mut client = bench.connect().await;
    let transaction = client.transaction().await.unwrap();
    line.hold_in(&transaction).await.unwrap();
    let over = "SELECT count(*) FROM {schema}.line \
                WHERE ends_us < extract(epoch FROM clock_timestamp()) * 1000000";
    bench.until(over).await;
    let engine = engine(&bench).await;
    let lines = "SELECT count(*) FROM {schema}.line";
    engine.inner().store().sweep(Duration::ZERO).await.unwrap();
    assert_eq!(bench.number(lines).await, 1);
    transaction.commit().await.unwrap();
    engine.inner().store().sweep(Duration::ZERO).await.unwrap();
    assert_eq!(bench.number(lines).await, 0);
    assert_lost(hold(&line, &mut client).await);
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_snapshot_does_not_hold_for_a_predecessor() {
    let Some(bench) = bench().await else { return };
    let locks = bench.locks().await;
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        // The successor waits, or comes when the line is free.
        for waits in [true, false] {
            let first = locks.mutex("k").lock().await.unwrap();
            let line = line_of(&bench, &first);
            let mut client = bench.connect().await;
            let transaction = with_snapshot(&bench, &mut client, level).await;
            let next = if waits {
                let mutex = locks.mutex("k");
                let joins = tokio::spawn(async move { mutex.lock().await });
                while locks.line("k").await.unwrap().len() < 2 {
                    tokio::task::yield_now().await;
                }
                first.release().await.unwrap();
                joins.await.unwrap().unwrap()
            } else {
                first.release().await.unwrap();
                locks.mutex("k").lock().await.unwrap()
            };
            // The snapshot still has the token of the first.
            let error = line.hold_in(&transaction).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{level:?}, {waits}: {error}");
            transaction.rollback().await.unwrap();
            // A snapshot of before the acquisition does not have the token of the next.
            let transaction = with_snapshot(&bench, &mut client, level).await;
            next.release().await.unwrap();
            let last = locks.mutex("k").lock().await.unwrap();
            assert!(line_of(&bench, &last).hold_in(&transaction).await.is_err());
            transaction.rollback().await.unwrap();
            last.release().await.unwrap();
        }
    }
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_of_the_holder_goes_on_through_renewals() {
    let Some(bench) = bench().await else { return };
    let locks = bench.locks().await;
    let guard = locks.mutex("k").lock().await.unwrap();
    let line = line_of(&bench, &guard);
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let mut client = bench.connect().await;
        let transaction = with_snapshot(&bench, &mut client, level).await;
        guard.extend().await.unwrap();
        line.hold_in(&transaction).await.unwrap();
        guard.extend().await.unwrap();
        line.hold_in(&transaction).await.unwrap();
        let insert = bench.text("INSERT INTO {schema}.written VALUES ('first')");
        transaction.batch_execute(&insert).await.unwrap();
        transaction.commit().await.unwrap();
    }
    guard.release().await.unwrap();
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_exclusive_guard_holds_in_a_transaction_with_the_default_schema() {
    let Some(bench) = bench().await else { return };
    let variable = "TENURE_TEST_POSTGRES_URL";
    let locks = tenure_postgres::connect(tenure_servers::url_of(variable).unwrap()).await.unwrap();
    let mut client = bench.connect().await;
    let transaction = client.transaction().await.unwrap();
    let key = |kind| format!("{kind} of {}", bench.schema);
    let mutex = locks.mutex(key("mutex")).lock().await.unwrap();
    mutex.hold_in(&transaction).await.unwrap();
    let writer = locks.rwlock(key("writer")).write().await.unwrap();
    writer.hold_in(&transaction).await.unwrap();
    let leader = locks.election(key("leader")).campaign().await.unwrap();
    leader.hold_in(&transaction).await.unwrap();
    // A writer that became a reader does not hold alone.
    let was = writer.held_line();
    let reader = writer.downgrade().await.unwrap();
    assert_lost(was.hold_in(&transaction).await);
    transaction.commit().await.unwrap();
    reader.release().await.unwrap();
    // The reason that the client knows.
    locks.force_unlock(key("mutex"), mutex.id()).await.unwrap();
    let transaction = client.transaction().await.unwrap();
    assert_lost(mutex.hold_in(&transaction).await);
    transaction.rollback().await.unwrap();
    leader.release().await.unwrap();
    bench.end().await;
}

/// Its xmax would hide the conflict from an old snapshot of the holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_ticket_is_served_over_a_row_lock_that_was_shared_with_a_transaction_that_ended() {
    let Some(bench) = bench().await else { return };
    let line = a_holder_without_renewals(&bench).await;
    let mut client = bench.connect().await;
    let holds = client.transaction().await.unwrap();
    line.hold_in(&holds).await.unwrap();
    let serves = bench.connect().await;
    let row = "BEGIN; SELECT FROM {schema}.line WHERE key = 'k' FOR NO KEY UPDATE";
    serves.batch_execute(&bench.text(row)).await.unwrap();
    holds.commit().await.unwrap();
    let write = "SELECT is_held FROM {schema}.write_1(\
                 '1s', 'k', 1, 0, 0, 0, true, 0, 0, 0, 0, '')";
    let answer = serves.query_one(&bench.text(write), &[]).await.unwrap();
    assert!(answer.get::<_, bool>("is_held"));
    serves.batch_execute("ROLLBACK").await.unwrap();
    let answer = serves.query_one(&bench.text(write), &[]).await.unwrap();
    assert!(!answer.get::<_, bool>("is_held"), "the row lock is not shared any more");
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_without_the_tables_is_named_in_the_error() {
    let Some(bench) = bench().await else { return };
    let line = HeldLine::new(Key::new("k").unwrap(), Token::new(1).unwrap());
    let line = line.schema("no \"such\" schema").unwrap();
    let error = hold(&line, &mut bench.connect().await).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(error.to_string().contains("does not have the tables of the locks"), "{error}");
    assert!(line.schema("pg_catalog").is_err());
    bench.end().await;
}

async fn bench() -> Option<Bench> {
    Bench::at("TENURE_TEST_POSTGRES_URL", &[POSTGRES]).await
}

/// Waits until the line has a ticket, and no ticket is served.
async fn until_kept_out(bench: &Bench) {
    let waits = "SELECT count(*) FROM {schema}.line WHERE holder = 0 AND tickets <> ''";
    bench.until(waits).await;
}

/// An engine, whose tickets are renewed by nothing.
async fn engine(bench: &Bench) -> OnRuntime<RecordEngine<PostgresStore>> {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    tenure_postgres::engine(&bench.locks_url(), host).await.unwrap()
}

/// A ticket that holds, and is never renewed.
async fn a_holder_without_renewals(bench: &Bench) -> HeldLine {
    let key = Key::new("k").unwrap();
    let ticket = Ticket { ttl: TTL, ..Ticket::new(key.clone(), Share::WHOLE) };
    let engine = engine(bench).await;
    let place = engine.join(&ticket, WaitMode::NoWait).await.unwrap().unwrap();
    let token = Token::new(place.number).unwrap();
    HeldLine::new(key, token).schema(bench.schema.as_str()).unwrap()
}

fn line_of(bench: &Bench, guard: &impl HoldIn) -> HeldLine {
    guard.held_line().schema(bench.schema.as_str()).unwrap()
}

/// Holds the line in a transaction for a moment.
async fn hold(line: &HeldLine, client: &mut Client) -> Result<()> {
    let transaction = client.transaction().await.unwrap();
    let held = line.hold_in(&transaction).await;
    transaction.rollback().await.unwrap();
    held
}

/// A transaction that has taken its snapshot.
async fn with_snapshot<'a>(
    bench: &Bench,
    client: &'a mut Client,
    level: IsolationLevel,
) -> Transaction<'a> {
    let transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
    let read = bench.text("SELECT count(*) FROM {schema}.written");
    transaction.query_typed_one(&read, &[]).await.unwrap();
    transaction
}

#[track_caller]
fn assert_lost(held: Result<()>) {
    let error = held.expect_err("the lock is lost");
    assert!(error.is_lost(), "{error:?}");
}
