//! Concurrent writers: the accepted tokens never decrease, and each write compares the newest row.

use super::*;

const LEVELS: [IsolationLevel; 3] =
    [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead, IsolationLevel::Serializable];
const TASKS: u64 = 6;
const WRITES: u64 = 40;

/// Returns a pseudo-random number (splitmix64).
fn shuffled(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[test]
fn accepted_writes_never_go_back() {
    for level in LEVELS {
        Bench::run(async |bench| {
            bench.sql("ALTER TABLE accounts ADD COLUMN log LONGTEXT NOT NULL DEFAULT ''").await;
            let mut tasks = Vec::new();
            for task in 0..TASKS {
                let (mut connection, fence) = (bench.connect().await, bench.fence.clone());
                tasks.push(tokio::spawn(async move {
                    let mut accepted = 0;
                    for at in 0..WRITES {
                        // Tokens mostly rise, and are often late.
                        let token = 1 + at * 4 + shuffled(task << 32 | at) % 48;
                        let append = format!(
                            "UPDATE accounts SET log = concat(log, ' ', {token}) WHERE id = 1"
                        );
                        let options = at_level(level);
                        match write(&fence, &mut connection, &append, token, options).await {
                            Ok(changed) => accepted += changed,
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
            let log: String = bench.one("SELECT log FROM accounts").await;
            let log: Vec<u64> = log.split_whitespace().map(|it| it.parse().unwrap()).collect();
            assert!(log.is_sorted(), "{level}: {log:?}");
            assert_eq!(log.len() as u64, accepted);
            assert_eq!(log.last(), Some(&bench.account().await.1));
        });
    }
}

/// The writes of the next test. All of them write row 1, which exists, or row 2, which does not.
const WAITING: [&str; 5] = [
    "UPDATE accounts SET amount = 5 WHERE id = 1",
    "DELETE FROM accounts WHERE id = 1",
    "REPLACE INTO accounts (id, amount) VALUES (1, 5)",
    "INSERT INTO accounts (id, amount) VALUES (1, 5) ON DUPLICATE KEY UPDATE amount = 5",
    "INSERT INTO accounts (id, amount) VALUES (2, 5) ON DUPLICATE KEY UPDATE amount = 5",
];

#[test]
fn a_write_that_waited_compares_the_row_after_the_wait() {
    Bench::run_alone(async |bench| {
        for level in LEVELS {
            for statement in WAITING {
                for commits in [true, false] {
                    for (first, second) in [(42, 41), (41, 42)] {
                        bench.sql("TRUNCATE accounts").await;
                        let row = "INSERT INTO accounts (id, amount) VALUES (1, 0)";
                        bench.write(row, 1).await.unwrap();
                        one_waits(bench, level, statement, commits, first, second).await;
                    }
                }
            }
        }
    });
}

async fn one_waits(
    bench: &mut Bench,
    level: IsolationLevel,
    statement: &'static str,
    commits: bool,
    first: u64,
    second: u64,
) {
    let (mut blocker, mut late) = (bench.connect().await, bench.connect().await);
    let mut blocks = bench.fence.begin(&mut blocker, numbered(first)).await.unwrap();
    blocks.query_drop("UPDATE accounts SET amount = 1 WHERE id = 1").await.unwrap();
    blocks.query_drop("INSERT INTO accounts (id, amount) VALUES (2, 1)").await.unwrap();

    let fence = bench.fence.clone();
    let before = bench.row_waits().await;
    let waits = tokio::spawn(async move {
        let options = at_level(level);
        let mut transaction = fence.begin_with(&mut late, numbered(second), options).await.unwrap();
        // A snapshot of before the wait.
        let _: Option<u64> =
            transaction.query_first("SELECT count(*) FROM mysql.db").await.unwrap();
        let written = transaction.query_drop(statement).await.map_err(into_error);
        match written {
            Ok(()) => transaction.commit().await,
            Err(error) => transaction.rollback().await.and(Err(error)),
        }
    });
    bench.until_blocked(before, &waits).await;
    if commits {
        blocks.commit().await.unwrap();
    } else {
        blocks.rollback().await.unwrap();
    }

    let case = format!("{level}, {statement}, commits: {commits}, {first} then {second}");
    let is_refused = commits && first > second;
    let answer = waits.await.unwrap();
    let stale = answer.as_ref().err().and_then(Stale::of);
    let expected = is_refused.then_some(Stale { token: second, newest: first });
    assert_eq!(stale, expected, "{case}: {answer:?}");
    assert_eq!(answer.is_err(), is_refused, "{case}: {answer:?}");
    // The row of the statement has the token of its last accepted writer.
    let id = if statement.contains("(2") { 2 } else { 1 };
    let select = format!("SELECT max(tenure_token) FROM accounts WHERE id = {id}");
    let token: Option<u64> = bench.one(&select).await;
    let is_deleted = !is_refused && statement.starts_with("DELETE");
    let last = if is_refused { first } else { second };
    assert_eq!(token, (!is_deleted).then_some(last), "{case}");
}
