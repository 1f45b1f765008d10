//! A token ends with its transaction.

use super::*;

const UPDATE: &str = "UPDATE accounts SET amount = amount + 1 WHERE id = 1";

async fn needs_a_token(bench: &mut Bench, case: &str) {
    for statements in [UPDATE.to_owned(), format!("BEGIN; {UPDATE}")] {
        let error = bench.plain(&statements).await.expect_err(case);
        assert!(error.to_string().contains("needs the token"), "{case}: {error}");
    }
    bench.sql("ROLLBACK").await;
}

#[test]
fn a_token_ends_with_the_commit_and_with_each_way_to_roll_back() {
    Bench::run(async |bench| {
        for end in ["commit", "rollback", "drop", "by hand"] {
            let mut transaction =
                bench.fence.begin(&mut bench.connection, numbered(42)).await.unwrap();
            transaction.query_drop(UPDATE).await.unwrap();
            match end {
                "commit" => transaction.commit().await.unwrap(),
                "rollback" => transaction.rollback().await.unwrap(),
                "drop" => drop(transaction),
                _ => {
                    transaction.query_drop("ROLLBACK").await.unwrap();
                    let late = transaction.query_drop(UPDATE).await.map_err(into_error);
                    assert_failed(late, ErrorKind::Invalid, "needs the token");
                    drop(transaction);
                }
            }
            needs_a_token(bench, end).await;
            assert_eq!(bench.account().await, (1, 42), "{end}");
        }
    });
}

#[test]
fn a_transaction_that_the_server_rolled_back_has_no_token() {
    Bench::run_alone(async |bench| {
        bench.write("INSERT INTO accounts (id, amount) VALUES (2, 0)", 1).await.unwrap();
        let (first, second) = ("WHERE id = 1", "WHERE id = 2");
        let lock = |row: &str| format!("SELECT 1 FROM accounts {row} FOR UPDATE");
        let mut other = bench.connect().await;
        // Its many changes make the server choose the other transaction.
        let changes =
            "CREATE TABLE many (id INT); BEGIN; INSERT INTO many SELECT seq FROM seq_1_to_999";
        other.query_drop(changes).await.unwrap();
        other.query_drop(lock(second)).await.unwrap();

        let mut connection = bench.connect().await;
        let mut transaction = bench.fence.begin(&mut connection, numbered(42)).await.unwrap();
        transaction.query_drop(UPDATE).await.unwrap();
        let before = bench.row_waits().await;
        let waits = tokio::spawn(async move {
            other.query_drop(lock(first)).await.unwrap();
            other
        });
        bench.until_blocked(before, &waits).await;
        let dead = transaction.query_drop(lock(second)).await.map_err(into_error);
        assert_failed(dead, ErrorKind::Unavailable, "1213");
        let mut other = waits.await.unwrap();
        other.query_drop("ROLLBACK").await.unwrap();
        // Statements would commit at once now.
        let late = transaction.query_drop(UPDATE).await.map_err(into_error);
        assert_failed(late, ErrorKind::Invalid, "needs the token");
        let late = transaction.set_token(numbered(43)).await;
        assert_failed(late, ErrorKind::Unavailable, "repeat the transaction");
        let late = transaction.commit().await;
        assert_failed(late, ErrorKind::Unavailable, "repeat the transaction");
        assert_eq!(bench.account().await, (0, 0));
    });
}

#[test]
fn no_other_session_sees_a_token() {
    Bench::run(async |bench| {
        let mut other = bench.connect().await;
        let mut transaction = bench.fence.begin(&mut bench.connection, numbered(42)).await.unwrap();
        let id: u64 = transaction.query_first("SELECT @tenure_fence").await.unwrap().unwrap();
        for level in ["READ COMMITTED", "REPEATABLE READ"] {
            let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
            // Under REPEATABLE READ and with a binary log, triggers read with locks.
            let limit = "SET innodb_lock_wait_timeout = 1";
            let stolen = format!("{set}; {limit}; SET @tenure_fence = {id}; BEGIN; {UPDATE}");
            let refused = other.query_drop(stolen).await.map_err(into_error).unwrap_err();
            let kinds = [ErrorKind::Invalid, ErrorKind::Unavailable];
            assert!(kinds.contains(&refused.kind()), "{refused}");
            other.query_drop("ROLLBACK").await.unwrap();
        }
        transaction.query_drop(UPDATE).await.unwrap();
        transaction.commit().await.unwrap();
    });
}

#[test]
fn a_transaction_under_two_locks_and_a_savepoint_has_the_token_of_each() {
    Bench::run(async |bench| {
        bench.write("INSERT INTO accounts (id, amount) VALUES (2, 0)", 900).await.unwrap();
        let mut transaction = bench.fence.begin(&mut bench.connection, numbered(5)).await.unwrap();
        transaction.query_drop("SAVEPOINT earlier").await.unwrap();
        transaction.query_drop(UPDATE).await.unwrap();
        transaction.query_drop("ROLLBACK TO SAVEPOINT earlier").await.unwrap();
        transaction.query_drop(UPDATE).await.unwrap();
        for _ in 0..2 {
            transaction.set_token(numbered(901)).await.unwrap();
        }
        transaction.query_drop("UPDATE accounts SET amount = 1 WHERE id = 2").await.unwrap();
        transaction.commit().await.unwrap();
        let tokens = "SELECT group_concat(tenure_token ORDER BY id) FROM accounts";
        assert_eq!(bench.one::<String>(tokens).await, "5,901");
    });
}

/// The SQL of the README, and its limit.
#[test]
fn the_plain_sql_of_the_readme_is_guarded() {
    const PAGE: &str = include_str!("../../README.md");
    Bench::run(async |bench| {
        bench.sql("CREATE TABLE invoices (id INT PRIMARY KEY, paid INT); INSERT INTO invoices VALUES (42, 0)").await;
        let fence = bench.fence_of("invoices");
        fence.install(&mut bench.connection).await.unwrap();
        let blocks: Vec<_> = PAGE.split("\n```sql\n").skip(1).collect();
        let block = |at: usize, token: u64| {
            let code: &str = blocks[at].split("```").next().unwrap_or_default();
            code.replace(":token", &token.to_string())
        };
        let mut connection = bench.connect().await;
        connection.query_drop(block(0, 42)).await.unwrap();
        let late = connection.query_drop(block(0, 41)).await.map_err(into_error);
        assert_stale(late, 41, 42);
        connection.query_drop("ROLLBACK").await.unwrap();
        let paid: (u64, u64) = connection
            .query_first("SELECT paid, tenure_token FROM invoices")
            .await
            .unwrap()
            .unwrap();
        assert_eq!(paid, (1, 42));

        // Without the triggers, the statement compares.
        for event in ["insert", "update", "delete"] {
            bench.sql(&format!("DROP TRIGGER tenure_{event}_invoices")).await;
        }
        for (token, changes) in [(41, 0), (43, 1)] {
            connection.query_drop(block(1, token)).await.unwrap();
            assert_eq!(connection.affected_rows(), changes, "{token}");
        }
    });
}

#[test]
fn a_commit_by_hand_leaves_the_token_to_its_session_alone() {
    Bench::run(async |bench| {
        let mut connection = bench.connect().await;
        let mut transaction = bench.fence.begin(&mut connection, numbered(42)).await.unwrap();
        transaction.query_drop("COMMIT").await.unwrap();
        drop(transaction);
        let late = connection.query_drop(UPDATE).await.map_err(into_error);
        assert_failed(late, ErrorKind::Invalid, "needs the token");
        // The limit that the documentation names: a transaction is compared with the token that was
        // left.
        connection.query_drop(format!("BEGIN; {UPDATE}; COMMIT")).await.unwrap();
        bench.write(UPDATE, 43).await.unwrap();
        let late = connection.query_drop(format!("BEGIN; {UPDATE}")).await.map_err(into_error);
        assert_stale(late, 42, 43);
        connection.query_drop("ROLLBACK").await.unwrap();
        needs_a_token(bench, "another session").await;
        bench.sql("DELETE FROM tenure_fence_session").await;
    });
}

#[test]
fn a_token_that_a_statement_has_committed_ends_with_the_rollback() {
    Bench::run(async |bench| {
        for commits in ["CREATE TABLE made (id INT)", "LOCK TABLES accounts WRITE"] {
            let mut connection = bench.connect().await;
            let mut transaction = bench.fence.begin(&mut connection, numbered(42)).await.unwrap();
            transaction.query_drop(commits).await.unwrap();
            let late = transaction.query_drop(UPDATE).await.map_err(into_error);
            assert_failed(late, ErrorKind::Invalid, "needs the token");
            transaction.query_drop("UNLOCK TABLES").await.unwrap();
            transaction.rollback().await.unwrap();
            let next = connection.query_drop(format!("BEGIN; {UPDATE}")).await;
            assert_failed(next.map_err(into_error), ErrorKind::Invalid, "needs the token");
            connection.query_drop("ROLLBACK").await.unwrap();
        }
        // The rows stay.
        assert_eq!(bench.one::<u64>("SELECT count(*) FROM tenure_fence_session").await, 2);
        bench.sql("DELETE FROM tenure_fence_session").await;
    });
}
