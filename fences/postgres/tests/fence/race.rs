//! Concurrent writers: the accepted tokens never decrease, and each write compares the newest row.

use std::time::Duration;

use tenure_fence_postgres::set_token;

use super::*;

const ISOLATIONS: [&str; 3] = ["read committed", "repeatable read", "serializable"];
const TASKS: u64 = 8;
const WRITES: u64 = 60;

/// Returns a pseudo-random number (splitmix64).
fn shuffled(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[test]
fn accepted_writes_never_go_back() {
    for isolation in ISOLATIONS {
        Bench::run(async |bench| {
            bench.sql("ALTER TABLE accounts ADD COLUMN log bigint[] NOT NULL DEFAULT '{}'").await;
            let mut tasks = Vec::new();
            for task in 0..TASKS {
                let mut client = bench.connect().await;
                let set = format!("SET default_transaction_isolation = '{isolation}'");
                client.batch_execute(&set).await.unwrap();
                tasks.push(tokio::spawn(async move {
                    let mut accepted = 0;
                    for write in 0..WRITES {
                        // Tokens mostly rise, and are often late.
                        let token = 1 + write * 4 + shuffled(task << 32 | write) % 48;
                        let append = format!(
                            "UPDATE accounts SET log = log || {token}::bigint WHERE id = 1"
                        );
                        match execute(&mut client, &append, &[], numbered(token)).await {
                            Ok(changed) => accepted += changed,
                            Err(error) if error.kind() == ErrorKind::Unavailable => {
                                assert_ne!(isolation, "read committed", "{error:?}");
                            }
                            Err(error) => {
                                let stale = Stale::of(&error).expect("stale, or done");
                                assert!(stale.token == token && stale.newest > token, "{stale:?}");
                            }
                        }
                    }
                    accepted
                }));
            }
            let mut accepted = 0;
            for task in tasks {
                accepted += task.await.unwrap();
            }
            let select = "SELECT log, tenure_token FROM accounts";
            let rows = bench.client.query_typed(select, &[]).await.unwrap();
            let log: Vec<i64> = rows[0].get(0);
            assert!(log.is_sorted(), "{log:?}");
            assert_eq!(log.len() as u64, accepted);
            assert_eq!(log.last(), Some(&rows[0].get(1)));
        });
    }
}

/// The writes of the next test. All of them write row 1, which exists, or row 2, which does not.
const WAITING: [&str; 5] = [
    "UPDATE accounts SET amount = 5 WHERE id = 1",
    "UPDATE accounts SET amount = 5 WHERE id = 1 AND amount < 3",
    "DELETE FROM accounts WHERE id = 1",
    "INSERT INTO accounts VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET amount = EXCLUDED.amount",
    "INSERT INTO accounts VALUES (2, 5) ON CONFLICT (id) DO UPDATE SET amount = EXCLUDED.amount",
];

#[test]
fn a_write_that_waited_compares_the_row_after_the_wait() {
    for isolation in ISOLATIONS {
        for statement in WAITING {
            for commits in [true, false] {
                for (first, second) in [(42, 41), (41, 42)] {
                    Bench::run(async |bench| {
                        one_waits(bench, isolation, statement, commits, first, second).await;
                    });
                }
            }
        }
    }
}

async fn one_waits(
    bench: &mut Bench,
    isolation: &str,
    statement: &'static str,
    commits: bool,
    first: u64,
    second: u64,
) {
    let mut late = bench.connect().await;
    let set = format!("SET default_transaction_isolation = '{isolation}'");
    late.batch_execute(&set).await.unwrap();
    let pid = late.query_typed("SELECT pg_backend_pid()", &[]).await.unwrap()[0].get(0);

    let mut blocker = bench.connect().await;
    let tx = blocker.transaction().await.unwrap();
    set_token(&tx, numbered(first)).await.unwrap();
    tx.batch_execute("UPDATE accounts SET amount = 1 WHERE id = 1").await.unwrap();
    tx.batch_execute("INSERT INTO accounts VALUES (2, 1)").await.unwrap();

    let write =
        tokio::spawn(async move { execute(&mut late, statement, &[], numbered(second)).await });
    wait_until_blocked(bench, pid).await;
    let ended = if commits { tx.commit().await } else { tx.rollback().await };
    ended.unwrap();

    let case = format!("{isolation}, {statement}, commits: {commits}, {first} then {second}");
    match (write.await.unwrap(), commits, isolation) {
        (Ok(changed), false, _) => assert_eq!(changed, 1, "{case}"),
        (Ok(changed), true, "read committed") if first < second => assert_eq!(changed, 1, "{case}"),
        (Err(error), true, "read committed") if first > second => {
            let stale = Stale::of(&error);
            assert_eq!(stale, Some(Stale { token: second, newest: first }), "{case}: {error:?}");
        }
        (Err(error), true, "repeatable read" | "serializable") => {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{case}: {error:?}");
            assert!(error.to_string().contains("40001"), "{case}: {error}");
        }
        (answer, ..) => panic!("{case}: {answer:?}"),
    }
    // The row of the statement has the token of its last accepted writer.
    let is_refused = commits && (isolation != "read committed" || first > second);
    let expected = if is_refused { first } else { second };
    let id = if statement.contains("VALUES (2") { 2 } else { 1 };
    let token =
        bench.value(&format!("SELECT max(tenure_token) FROM accounts WHERE id = {id}")).await;
    let is_deleted = !is_refused && statement.starts_with("DELETE");
    assert_eq!(token, (!is_deleted).then(|| expected.to_string()), "{case}");
}

/// Waits until the session waits for a lock of another one.
async fn wait_until_blocked(bench: &Bench, pid: i32) {
    let blocked = format!("SELECT cardinality(pg_blocking_pids({pid})) > 0");
    while bench.one(&blocked).await != "true" {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn two_writes_of_one_holder_are_both_done() {
    Bench::run(async |bench| {
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let mut client = bench.connect().await;
            let raise = "UPDATE accounts SET amount = amount + 1";
            tasks.push(tokio::spawn(async move {
                execute(&mut client, raise, &[], numbered(1)).await.unwrap()
            }));
        }
        for task in tasks {
            assert_eq!(task.await.unwrap(), 1);
        }
        assert_eq!(bench.account().await, (8, 1));
    });
}
