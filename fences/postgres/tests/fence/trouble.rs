//! Errors that are not a newer token.

use super::*;

#[test]
fn each_error_says_whether_the_write_is_done() {
    Bench::run(async |bench| {
        let unknown = bench.write("UPDATE nothing SET amount = 1", 1).await;
        assert_failed(unknown, ErrorKind::Invalid, "nothing was changed");
        let twice = bench.write("INSERT INTO accounts VALUES (1, 1)", 1).await;
        assert_failed(twice, ErrorKind::Rejected, "nothing was changed");
        let other = "UPDATE accounts SET amount = $1";
        let other = execute(&mut bench.client, other, &[(&"1", Type::INT4)], numbered(1)).await;
        assert_failed(other, ErrorKind::Invalid, "cannot convert a value");
        bench.sql("SET default_transaction_read_only = on").await;
        assert_failed(bench.set(1, 1).await, ErrorKind::Unavailable, "nothing was changed");
        bench.sql("RESET default_transaction_read_only").await;
        assert_eq!(bench.account().await, (0, 0));
    });
}

#[test]
fn a_constraint_that_fails_at_the_commit_is_reported() {
    Bench::run(async |bench| {
        bench
            .sql(
                "CREATE TABLE owners (id int PRIMARY KEY);
                 ALTER TABLE accounts ADD COLUMN owner int REFERENCES owners
                 DEFERRABLE INITIALLY DEFERRED",
            )
            .await;
        let orphan = bench.write("UPDATE accounts SET owner = 7", 42).await;
        assert_failed(orphan, ErrorKind::Rejected, "nothing was changed");
        bench.set(1, 41).await.unwrap();
    });
}

#[test]
fn a_lock_time_limit_is_an_error_to_retry() {
    Bench::run(async |bench| {
        let mut blocker = bench.connect().await;
        let tx = blocker.transaction().await.unwrap();
        tx.batch_execute("SELECT FROM accounts FOR UPDATE").await.unwrap();
        for limit in ["lock_timeout", "statement_timeout"] {
            bench.sql(&format!("SET {limit} = 20")).await;
            assert_failed(bench.set(1, 1).await, ErrorKind::Unavailable, "nothing was changed");
            bench.sql(&format!("RESET {limit}")).await;
        }
        tx.commit().await.unwrap();
        bench.set(1, 1).await.unwrap();
    });
}

#[test]
fn a_session_that_ends_leaves_the_write_open() {
    Bench::run(async |bench| {
        let mut client = bench.connect().await;
        let mut blocker = bench.connect().await;
        let tx = blocker.transaction().await.unwrap();
        tx.batch_execute("SELECT FROM accounts FOR UPDATE").await.unwrap();
        let pid = "SELECT pg_backend_pid()";
        let pid: i32 = client.query_typed(pid, &[]).await.unwrap()[0].get(0);
        let update = "UPDATE accounts SET amount = 1";
        let end = format!(
            "DO $$ BEGIN
               WHILE cardinality(pg_blocking_pids({pid})) = 0 LOOP PERFORM pg_sleep(0.01); END LOOP;
               PERFORM pg_terminate_backend({pid});
             END $$"
        );
        let write = execute(&mut client, update, &[], numbered(1));
        let (ended, ()) = tokio::join!(write, bench.sql(&end));
        assert_failed(ended, ErrorKind::Unavailable, "may be done or not");
        let closed = execute(&mut client, update, &[], numbered(1)).await;
        assert_failed(closed, ErrorKind::Unavailable, "did not answer");
        tx.commit().await.unwrap();
        assert_eq!(bench.account().await, (0, 0));
    });
}
