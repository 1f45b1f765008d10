//! The ways to write to a table of PostgreSQL: which of them a fence checks, and which not.

use futures_util::SinkExt as _;
use tenure_fence_postgres::set_token;

use super::*;

#[test]
fn a_row_that_moves_between_partitions_keeps_its_token() {
    Bench::run(async |bench| {
        bench
            .sql(
                "CREATE TABLE parts (id int, place int) PARTITION BY LIST (place);
                 CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
                 CREATE TABLE parts_2 PARTITION OF parts FOR VALUES IN (2)",
            )
            .await;
        bench.fence("parts").install(&bench.client).await.unwrap();
        bench.fence("parts").install(&bench.client).await.unwrap();
        bench.sql("CREATE TABLE parts_3 PARTITION OF parts FOR VALUES IN (3)").await;
        bench.write("INSERT INTO parts VALUES (1, 1)", 40).await.unwrap();
        for place in [2, 3] {
            let to = format!("UPDATE parts SET place = {place}");
            assert_eq!(bench.write(&to, 42).await.unwrap(), 1);
        }
        assert_stale(bench.write("UPDATE parts SET place = 1", 41).await, 41, 42);
        assert_stale(bench.write("DELETE FROM parts_3", 41).await, 41, 42);
        bench.fence("parts_3").check(&bench.client).await.unwrap();
    });
}

#[test]
fn a_table_that_inherits_needs_a_fence_of_its_own() {
    Bench::run(async |bench| {
        bench
            .sql("CREATE TABLE child () INHERITS (accounts); INSERT INTO child VALUES (7, 1)")
            .await;
        bench.sql("UPDATE accounts SET amount = 2 WHERE id = 7").await;
        let missing = bench.fence("child").check(&bench.client).await;
        assert_failed(missing, ErrorKind::Rejected, "has no fence");
        bench.fence("child").install(&bench.client).await.unwrap();
        bench.write("UPDATE accounts SET amount = 3 WHERE id = 7", 42).await.unwrap();
        let late = bench.write("UPDATE accounts SET amount = 3 WHERE id = 7", 41).await;
        assert_stale(late, 41, 42);
    });
}

#[test]
fn views_rules_of_foreign_keys_and_merge_are_checked() {
    Bench::run(async |bench| {
        bench
            .sql(
                "CREATE VIEW seen AS SELECT id, amount FROM accounts;
                 CREATE TABLE owners (id int PRIMARY KEY);
                 INSERT INTO owners VALUES (1);
                 ALTER TABLE accounts ADD FOREIGN KEY (id) REFERENCES owners ON DELETE CASCADE",
            )
            .await;
        bench.set(1, 42).await.unwrap();
        let mut checked = vec!["UPDATE seen SET amount = 2", "DELETE FROM owners"];
        // MERGE came with PostgreSQL 15.
        if bench.one("SELECT current_setting('server_version_num')::int >= 150000").await == "true"
        {
            checked.push(
                "MERGE INTO accounts a USING owners o ON a.id = o.id \
                 WHEN MATCHED THEN UPDATE SET amount = 2",
            );
        }
        for statement in checked {
            let plain = bench.client.batch_execute(statement).await.map_err(into_error);
            assert_failed(plain, ErrorKind::Invalid, "needs the token");
            assert_stale(bench.write(statement, 41).await, 41, 42);
        }
        assert_eq!(bench.write("DELETE FROM owners", 42).await.unwrap(), 1);
        assert_eq!(bench.one("SELECT count(*) FROM accounts").await, "0");
    });
}

#[test]
fn copied_rows_get_the_token_of_their_transaction() {
    Bench::run(async |bench| {
        let plain = copy(&bench.client).await;
        assert_failed(plain.map_err(into_error), ErrorKind::Invalid, "needs the token");
        bench.sql("BEGIN; SET LOCAL tenure.token = '42'").await;
        copy(&bench.client).await.unwrap();
        bench.sql("COMMIT").await;
        assert_eq!(bench.one("SELECT sum(tenure_token) FROM accounts").await, "84");
    });
}

async fn copy(client: &Client) -> std::result::Result<u64, tokio_postgres::Error> {
    let sink = client.copy_in("COPY accounts (id, amount) FROM STDIN").await?;
    let mut sink = std::pin::pin!(sink);
    sink.send(&b"10\t1\n11\t1\n"[..]).await?;
    sink.finish().await
}

/// The limits that the documentation names.
#[test]
fn truncate_a_new_row_and_a_deleted_row_are_not_compared() {
    Bench::run(async |bench| {
        bench.set(1, 42).await.unwrap();
        bench.write("INSERT INTO accounts VALUES (2, 1)", 41).await.unwrap();
        bench.write("DELETE FROM accounts WHERE id = 1", 42).await.unwrap();
        bench.write("INSERT INTO accounts VALUES (1, 1)", 41).await.unwrap();
        bench.sql("TRUNCATE accounts").await;
        assert_eq!(bench.one("SELECT count(*) FROM accounts").await, "0");
    });
}

#[test]
fn the_token_ends_with_a_rollback_to_an_earlier_savepoint() {
    Bench::run(async |bench| {
        let mut tx = bench.client.transaction().await.unwrap();
        let savepoint = tx.savepoint("before").await.unwrap();
        set_token(&savepoint, numbered(42)).await.unwrap();
        savepoint.batch_execute("UPDATE accounts SET amount = 1").await.unwrap();
        savepoint.rollback().await.unwrap();
        let plain = tx.batch_execute("UPDATE accounts SET amount = 1").await;
        assert_failed(plain.map_err(into_error), ErrorKind::Invalid, "needs the token");
    });
}
