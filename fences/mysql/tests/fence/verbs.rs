//! The effect of each verb, and its refusal for an old token.

use tenure_core::NUMBER_MAX;

use super::*;

const WRITES: [&str; 9] = [
    "UPDATE accounts SET amount = 1",
    "UPDATE accounts SET amount = 1, tenure_token = 99",
    "UPDATE accounts SET tenure_token = tenure_token",
    "UPDATE IGNORE accounts SET amount = 1",
    "DELETE FROM accounts",
    "DELETE IGNORE FROM accounts",
    "INSERT INTO accounts (id, amount) VALUES (1, 1) ON DUPLICATE KEY UPDATE amount = 1",
    "REPLACE INTO accounts (id, amount) VALUES (1, 1)",
    "UPDATE accounts a JOIN accounts b USING (id) SET a.amount = b.amount + 1",
];

#[test]
fn no_statement_writes_for_an_old_token_or_without_one() {
    Bench::run(async |bench| {
        bench.write("UPDATE accounts SET amount = 7", 42).await.unwrap();
        for statement in WRITES {
            assert_stale(bench.write(statement, 41).await, 41, 42);
            assert_failed(bench.plain(statement).await, ErrorKind::Invalid, "needs the token");
            assert_eq!(bench.account().await, (7, 42), "{statement}");
        }
        for insert in ["INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO"] {
            let insert = format!("{insert} accounts (id, amount) VALUES (2, 1)");
            assert_failed(bench.plain(&insert).await, ErrorKind::Invalid, "needs the token");
        }
        let rows: u64 = bench.one("SELECT count(*) FROM accounts").await;
        assert_eq!(rows, 1);
    });
}

#[test]
fn statements_without_a_list_of_columns_do_not_change() {
    Bench::run(async |bench| {
        bench.write("INSERT INTO accounts VALUES (2, 5)", 42).await.unwrap();
        assert_failed(
            bench.plain("REPLACE INTO accounts VALUES (2, 6)").await,
            ErrorKind::Invalid,
            "needs the token",
        );
        assert_stale(bench.write("REPLACE INTO accounts VALUES (2, 6)", 41).await, 41, 42);
        let all = "SELECT * FROM accounts WHERE id = 2";
        let row: Option<(u64, u64)> = bench.connection.query_first(all).await.unwrap();
        assert_eq!(row, Some((2, 5)));
        let token: u64 = bench.one("SELECT tenure_token FROM accounts WHERE id = 2").await;
        assert_eq!(token, 42);
    });
}

#[test]
fn an_equal_token_and_a_newer_one_write() {
    Bench::run(async |bench| {
        for token in [7, 7, 8, 8] {
            for statement in WRITES {
                bench.write(statement, token).await.unwrap();
                let add = "INSERT IGNORE INTO accounts (id, amount) VALUES (1, 5)";
                bench.write(add, token).await.unwrap();
                assert_eq!(bench.account().await.1, token, "{statement}");
            }
        }
    });
}

#[test]
fn a_claim_refuses_an_older_holder_before_the_first_write() {
    Bench::run(async |bench| {
        bench.write("UPDATE accounts SET amount = 100", 1).await.unwrap();
        let claim = "UPDATE accounts SET tenure_token = tenure_token WHERE id = 1";
        assert_eq!(bench.write(claim, 2).await.unwrap(), 1);
        assert_stale(bench.write("UPDATE accounts SET amount = 50", 1).await, 1, 2);
        assert_eq!(bench.account().await, (100, 2));
    });
}

#[test]
fn a_refused_row_undoes_its_statement_and_a_rollback_the_others() {
    Bench::run(async |bench| {
        bench.write("INSERT INTO accounts (id, amount) VALUES (2, 0), (3, 0)", 1).await.unwrap();
        bench.write("UPDATE accounts SET amount = 7 WHERE id = 3", 42).await.unwrap();
        assert_stale(bench.write("UPDATE accounts SET amount = 1", 41).await, 41, 42);

        // An insert has nothing to compare. The claim of a row that stays refuses it.
        let mut transaction = bench.fence.begin(&mut bench.connection, numbered(41)).await.unwrap();
        let insert = "INSERT INTO accounts (id, amount) VALUES (10, 1)";
        transaction.query_drop(insert).await.unwrap();
        let claim = "UPDATE accounts SET tenure_token = tenure_token WHERE id = 3";
        assert_stale(transaction.query_drop(claim).await.map_err(into_error), 41, 42);
        transaction.rollback().await.unwrap();
        let sum: u64 = bench.one("SELECT sum(amount) + count(*) FROM accounts").await;
        assert_eq!(sum, 10);
    });
}

#[test]
fn tokens_are_compared_as_numbers_and_exactly() {
    Bench::run(async |bench| {
        let (most, less) = (NUMBER_MAX, NUMBER_MAX - 1);
        let update = "UPDATE accounts SET amount = amount + 1";
        for (older, newer) in [(9, 10), (99, 1_763_000_000_000_000), (less, most)] {
            bench.write(update, older).await.unwrap();
            bench.write(update, newer).await.unwrap();
            assert_stale(bench.write(update, older).await, older, newer);
        }
        assert_eq!(bench.account().await, (6, most));
    });
}

#[test]
fn each_error_says_whether_a_retry_may_help() {
    Bench::run(async |bench| {
        let unknown = bench.write("UPDATE nothing SET amount = 1", 1).await;
        assert_failed(unknown, ErrorKind::Invalid, "changed nothing");
        let twice = bench.write("INSERT INTO accounts (id, amount) VALUES (1, 1)", 1).await;
        assert_failed(twice, ErrorKind::Rejected, "changed nothing");
        let mut other = bench.connect().await;
        let blocks = "BEGIN; SELECT 1 FROM accounts FOR UPDATE";
        other.query_drop(blocks).await.unwrap();
        bench.sql("SET innodb_lock_wait_timeout = 1").await;
        let late = bench.write("UPDATE accounts SET amount = 1", 1).await;
        assert_failed(late, ErrorKind::Unavailable, "roll back and repeat");
        other.query_drop("ROLLBACK").await.unwrap();
        let none = Fence::new("mysql", "nothing").unwrap();
        let begun = none.begin(&mut bench.connection, numbered(1)).await.map(drop);
        assert_failed(begun, ErrorKind::Invalid, "tenure_fence_session");
        bench.write("UPDATE accounts SET amount = 1", 1).await.unwrap();
    });
}

#[test]
fn a_guarded_write_can_be_made_in_any_task() {
    Bench::run(async |bench| {
        let (mut connection, fence) = (bench.connect().await, bench.fence.clone());
        let task = async move {
            fence.check(&mut connection).await?;
            let mut transaction = fence.begin(&mut connection, numbered(1)).await?;
            let update = "UPDATE accounts SET amount = ? WHERE id = ?";
            transaction.exec_drop(update, (5, 1)).await.map_err(into_error)?;
            transaction.commit().await
        };
        tokio::spawn(task).await.unwrap().unwrap();
        assert_eq!(bench.account().await, (5, 1));
    });
}
