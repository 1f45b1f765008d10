//! Advisory locks of transactions.
#![cfg(unix)]

#[path = "common/bench.rs"]
mod bench;

use bench::Bench;
use tenure_core::ErrorKind;
use tenure_postgres::{transaction_lock, transaction_lock_number, try_transaction_lock};
use tenure_servers::postgres::{PGBOUNCER, POSTGRES};

const DEPLOYMENTS: [&str; 2] = ["TENURE_TEST_POSTGRES_URL", "TENURE_TEST_POSTGRES_PGBOUNCER_URL"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_transaction_at_a_time_has_the_lock() {
    for variable in DEPLOYMENTS {
        let Some(bench) = Bench::at(variable, &[POSTGRES, PGBOUNCER]).await else { return };
        let (mut one, mut two) = (bench.connect().await, bench.connect().await);
        let (key, other) = (format!("a of {}", bench.schema), format!("b of {}", bench.schema));
        let first = one.transaction().await.unwrap();
        transaction_lock(&first, &key).await.unwrap();
        let second = two.transaction().await.unwrap();
        assert!(!try_transaction_lock(&second, &key).await.unwrap());
        assert!(try_transaction_lock(&second, &other).await.unwrap());
        let number = transaction_lock_number(&key).unwrap();
        let waits = async {
            transaction_lock(&second, &key).await.unwrap();
            second.commit().await.unwrap();
        };
        let ends = async {
            // The halves of a number of 64 bits are the columns `classid` and `objid`.
            let query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                         AND (classid::bigint << 32 | objid::bigint) = {number}";
            bench.until(&query.replace("{number}", &number.to_string())).await;
            let insert = bench.text("INSERT INTO {schema}.written VALUES ('first')");
            first.batch_execute(&insert).await.unwrap();
            first.commit().await.unwrap();
        };
        tokio::join!(waits, ends);
        assert_eq!(bench.number("SELECT count(*) FROM {schema}.written").await, 1);
        bench.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_clients_compute_the_same_number() {
    let Some(bench) = Bench::at(DEPLOYMENTS[0], &[POSTGRES]).await else { return };
    // As the documentation of the function has it.
    let query = r"SELECT ('x' || encode(substr(sha256('tenure\000'::bytea || convert_to('{key}', 'UTF8')), 1, 8), 'hex'))::bit(64)::bigint";
    for key in ["invoices/42", "a", "größer"] {
        let number = bench.number(&query.replace("{key}", key)).await;
        assert_eq!(transaction_lock_number(key).unwrap(), number, "{key}");
    }
    assert_eq!(transaction_lock_number("").unwrap_err().kind(), ErrorKind::Invalid);
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_the_server_ends_is_an_error_and_no_lock() {
    let Some(bench) = Bench::at(DEPLOYMENTS[0], &[POSTGRES]).await else { return };
    let (mut one, mut two) = (bench.connect().await, bench.connect().await);
    let first = one.transaction().await.unwrap();
    transaction_lock(&first, &bench.schema).await.unwrap();
    let second = two.transaction().await.unwrap();
    second.batch_execute("SET LOCAL lock_timeout = '1ms'").await.unwrap();
    let error = transaction_lock(&second, &bench.schema).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    drop(second);
    // A rollback ends the lock as well.
    first.rollback().await.unwrap();
    let second = two.transaction().await.unwrap();
    assert!(try_transaction_lock(&second, &bench.schema).await.unwrap());
    second.rollback().await.unwrap();
    bench.end().await;
}
