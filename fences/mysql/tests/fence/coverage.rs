//! The ways to write to a table: which of them a fence checks, and which not.

use super::*;

#[test]
fn partitions_and_views_are_checked() {
    Bench::run(async |bench| {
        bench
            .sql(
                "CREATE TABLE parts (id INT, place INT) PARTITION BY LIST (place)
                 (PARTITION one VALUES IN (1), PARTITION two VALUES IN (2));
                 CREATE VIEW seen AS SELECT id, place FROM parts",
            )
            .await;
        let fence = bench.fence_of("parts");
        fence.install(&mut bench.connection).await.unwrap();
        bench.write("INSERT INTO parts (id, place) VALUES (1, 1)", 40).await.unwrap();
        assert_eq!(bench.write("UPDATE parts SET place = 2", 42).await.unwrap(), 1);
        for statement in
            ["UPDATE parts SET place = 1", "UPDATE seen SET id = 2", "DELETE FROM seen"]
        {
            assert_stale(bench.write(statement, 41).await, 41, 42);
            assert_failed(bench.plain(statement).await, ErrorKind::Invalid, "needs the token");
        }
    });
}

#[test]
fn a_procedure_and_another_trigger_of_the_table_are_checked() {
    Bench::run(async |bench| {
        bench
            .sql(
                "CREATE PROCEDURE pay() UPDATE accounts SET amount = amount + 1;
                 CREATE TABLE orders (id INT PRIMARY KEY);
                 CREATE TRIGGER pays AFTER INSERT ON orders FOR EACH ROW
                 UPDATE accounts SET amount = amount + 1",
            )
            .await;
        bench.write("UPDATE accounts SET amount = 1", 42).await.unwrap();
        for statement in ["CALL pay()", "INSERT INTO orders VALUES (1)"] {
            assert_stale(bench.write(statement, 41).await, 41, 42);
            assert_failed(bench.plain(statement).await, ErrorKind::Invalid, "needs the token");
            bench.write(statement, 42).await.unwrap();
        }
        assert_eq!(bench.account().await, (3, 42));
    });
}

/// The limits that the documentation names.
#[test]
fn truncate_foreign_keys_a_new_row_and_a_deleted_row_are_not_compared() {
    Bench::run(async |bench| {
        bench.write("UPDATE accounts SET amount = 1", 42).await.unwrap();
        bench.write("INSERT INTO accounts (id, amount) VALUES (2, 1)", 41).await.unwrap();
        bench.write("DELETE FROM accounts WHERE id = 1", 42).await.unwrap();
        bench.write("INSERT INTO accounts (id, amount) VALUES (1, 1)", 41).await.unwrap();
        bench
            .sql(
                "CREATE TABLE owners (id INT PRIMARY KEY); INSERT INTO owners VALUES (1), (2);
                 ALTER TABLE accounts ADD FOREIGN KEY (id) REFERENCES owners (id) ON DELETE CASCADE;
                 DELETE FROM owners WHERE id = 1",
            )
            .await;
        let count = "SELECT count(*) FROM accounts";
        assert_eq!(bench.one::<u64>(count).await, 1);
        bench.sql("TRUNCATE accounts").await;
        assert_eq!(bench.one::<u64>(count).await, 0);
    });
}
