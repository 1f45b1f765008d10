//! The effect of each verb, and its refusal for an old token.

use std::future::poll_fn;
use std::task::Poll;

use tenure_core::NUMBER_MAX;
use tenure_fence_postgres::{query, set_token};

use super::*;

fn is_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn no_statement_writes_for_an_old_token() {
    Bench::run(async |bench| {
        bench.set(7, 42).await.unwrap();
        for statement in [
            "UPDATE accounts SET amount = 1",
            "UPDATE accounts SET amount = 1, tenure_token = 99",
            "UPDATE accounts SET tenure_token = tenure_token",
            "DELETE FROM accounts",
            "INSERT INTO accounts VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET amount = 1",
            "WITH gone AS (DELETE FROM accounts RETURNING id) SELECT count(*) FROM gone",
        ] {
            assert_stale(bench.write(statement, 41).await, 41, 42);
            let rows = query(&mut bench.client, statement, &[], numbered(41)).await;
            assert_stale(rows, 41, 42);
        }
        let tx = bench.client.transaction().await.unwrap();
        set_token(&tx, numbered(41)).await.unwrap();
        let late = tx.batch_execute("UPDATE accounts SET amount = 1").await;
        assert_stale(late.map_err(into_error), 41, 42);
        drop(tx);
        assert_eq!(bench.account().await, (7, 42));
    });
}

#[test]
fn an_equal_token_and_a_newer_one_write() {
    Bench::run(async |bench| {
        for token in [7, 7, 8, 8] {
            bench.set(1, token).await.unwrap();
            bench.write("DELETE FROM accounts", token).await.unwrap();
            let upsert =
                "INSERT INTO accounts VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET amount = 5";
            assert_eq!(bench.write(upsert, token).await.unwrap(), 1);
            assert_eq!(bench.write(upsert, token).await.unwrap(), 1);
            assert_eq!(bench.account().await, (5, token.cast_signed()));
        }
    });
}

#[test]
fn a_statement_cannot_choose_the_stored_token() {
    Bench::run(async |bench| {
        bench.write("UPDATE accounts SET tenure_token = 99", 7).await.unwrap();
        assert_eq!(bench.account().await, (0, 7));
        bench.write("INSERT INTO accounts VALUES (2, 0, 99)", 8).await.unwrap();
        assert_eq!(bench.one("SELECT tenure_token FROM accounts WHERE id = 2").await, "8");
    });
}

#[test]
fn a_write_without_a_token_is_refused_with_a_sentence() {
    Bench::run(async |bench| {
        let plain = "UPDATE accounts SET amount = 9";
        for setting in ["", "0", "-7"] {
            bench.sql(&format!("SET tenure.token = '{setting}'")).await;
            let answer = bench.client.batch_execute(plain).await.map_err(into_error);
            assert_failed(answer, ErrorKind::Invalid, "needs the token of a lock (TN002)");
        }
        bench.sql("SET tenure.token = 'abc'").await;
        let answer = bench.client.batch_execute(plain).await.map_err(into_error);
        assert_failed(answer, ErrorKind::Rejected, "abc");
        bench.sql("RESET tenure.token").await;
        assert_eq!(bench.account().await, (0, 0));

        // The token of a transaction ends with it.
        bench.set(1, 7).await.unwrap();
        let answer = bench.client.batch_execute(plain).await.map_err(into_error);
        assert_failed(answer, ErrorKind::Invalid, "call `set_token`");
        bench.set(2, 7).await.unwrap();
        assert_eq!(bench.account().await, (2, 7));
    });
}

#[test]
fn a_claim_closes_the_door_before_the_first_read() {
    Bench::run(async |bench| {
        bench.set(100, 1).await.unwrap();
        let claim =
            "UPDATE accounts SET tenure_token = tenure_token WHERE id = $1 RETURNING amount";
        let rows = query(&mut bench.client, claim, &[(&1, Type::INT4)], numbered(2)).await;
        assert_eq!(rows.unwrap()[0].get::<_, i32>(0), 100);
        // The new holder has written nothing yet. The old holder resumes.
        assert_stale(bench.set(50, 1).await, 1, 2);
        assert_eq!(bench.account().await, (100, 2));
    });
}

#[test]
fn a_refused_row_rolls_back_the_whole_transaction() {
    Bench::run(async |bench| {
        bench
            .write("INSERT INTO accounts SELECT g, 0 FROM generate_series(2, 9) g", 1)
            .await
            .unwrap();
        bench.write("UPDATE accounts SET amount = 7 WHERE id = 9", 42).await.unwrap();
        assert_stale(bench.write("UPDATE accounts SET amount = 1", 41).await, 41, 42);

        // An insert has nothing to compare. The claim of a row that stays refuses it.
        let tx = bench.client.transaction().await.unwrap();
        set_token(&tx, numbered(41)).await.unwrap();
        tx.batch_execute("INSERT INTO accounts VALUES (10, 1)").await.unwrap();
        let claim = "UPDATE accounts SET tenure_token = tenure_token WHERE id = 9";
        assert_stale(tx.batch_execute(claim).await.map_err(into_error), 41, 42);
        tx.commit().await.unwrap();
        assert_eq!(bench.one("SELECT sum(amount) + count(*) FROM accounts").await, "16");
    });
}

#[test]
fn a_transaction_under_two_locks_has_the_token_of_each() {
    Bench::run(async |bench| {
        bench.write("INSERT INTO accounts VALUES (2, 0)", 900).await.unwrap();
        let tx = bench.client.transaction().await.unwrap();
        for (id, token) in [(1, 5), (2, 901)] {
            set_token(&tx, numbered(token)).await.unwrap();
            let raise = format!("UPDATE accounts SET amount = 1 WHERE id = {id}");
            tx.batch_execute(&raise).await.unwrap();
        }
        tx.commit().await.unwrap();
        let tokens = "SELECT string_agg(tenure_token::text, ' ' ORDER BY id) FROM accounts";
        assert_eq!(bench.one(tokens).await, "5 901");
    });
}

#[test]
fn tokens_are_compared_as_numbers_and_exactly() {
    Bench::run(async |bench| {
        let (most, less) = (NUMBER_MAX, NUMBER_MAX - 1);
        for (older, newer) in [(9, 10), (99, 1_763_000_000_000_000), (less, most)] {
            bench.set(1, older).await.unwrap();
            bench.set(2, newer).await.unwrap();
            assert_stale(bench.set(3, older).await, older, newer);
        }
        assert_eq!(bench.account().await, (2, most.cast_signed()));
    });
}

#[test]
fn a_dropped_write_leaves_no_transaction_open() {
    Bench::run(async |bench| {
        for (amount, token) in (1..).zip(1..=20) {
            let mut write = Box::pin(bench.set(amount, token));
            // Polled once.
            let _ = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await;
            drop(write);
            // The same connection answers in order, so the transaction has ended.
            assert_eq!(bench.one("SELECT pg_current_xact_id_if_assigned() IS NULL").await, "true");
            assert_eq!(bench.account().await, (amount, token.cast_signed()));
        }
        // Not polled, it does nothing.
        drop(Box::pin(bench.set(99, 99)));
        assert_eq!(bench.account().await, (20, 20));
    });
}

#[test]
fn a_guarded_write_can_be_made_in_any_task() {
    Bench::run(async |bench| {
        let (mut client, fence) = (bench.connect().await, bench.fence("accounts"));
        let task = is_send(async move {
            fence.check(&client).await?;
            let update = "UPDATE accounts SET amount = 1";
            execute(&mut client, update, &[], numbered(1)).await?;
            let tx = client.transaction().await.map_err(into_error)?;
            fence.install(&tx).await?;
            set_token(&tx, numbered(1)).await?;
            tx.batch_execute(update).await.map_err(into_error)?;
            tx.commit().await.map_err(into_error)
        });
        tokio::spawn(task).await.unwrap().unwrap();
    });
}
