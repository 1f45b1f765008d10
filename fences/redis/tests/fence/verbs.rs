//! The effect of each verb, and its refusal for an old token.

use std::time::Duration;

use redis::{ExistenceCheck, SetExpiry, SetOptions};
use tenure_fence_redis::{FORGET_AFTER_MAX, FORGET_AFTER_MIN, FencedScript};

use super::*;

fn is_send<T: Send>(value: T) -> T {
    value
}

#[test]
fn no_verb_writes_for_an_old_token() {
    Bench::run(async |mut bench| {
        let Bench { fence, conn, .. } = &mut bench;
        fence.claim(conn, numbered(41)).await.unwrap();
        fence.set(conn, "state", "open", numbered(41)).await.unwrap();
        fence.claim(conn, numbered(42)).await.unwrap();

        let write = FencedScript::new("return redis.call('SET', KEYS[1], 'late')").unwrap();
        let options = SetOptions::default().with_expiration(SetExpiry::PX(1));
        assert_stale(fence.claim(conn, numbered(41)).await, 41, 42);
        assert_stale(fence.set(conn, "state", "late", numbered(41)).await, 41, 42);
        assert_stale(
            fence.set_options::<()>(conn, "state", "late", options, numbered(41)).await,
            41,
            42,
        );
        assert_stale(fence.delete(conn, "state", numbered(41)).await, 41, 42);
        assert_stale(
            fence.run::<()>(conn, &write, "state", None::<&str>, numbered(41)).await,
            41,
            42,
        );

        assert_eq!(bench.ask::<String>(&["GET", "state"]).await, "open");
        assert_eq!(bench.ask::<i64>(&["PTTL", "state"]).await, -1);
        assert_eq!(bench.newest().await, Some(42));
    });
}

#[test]
fn an_equal_token_and_a_newer_one_write() {
    Bench::run(async |mut bench| {
        let Bench { fence, conn, .. } = &mut bench;
        for token in [7, 7, 8, 8] {
            fence.claim(conn, numbered(token)).await.unwrap();
            fence.set(conn, "state", token, numbered(token)).await.unwrap();
            assert!(fence.delete(conn, "state", numbered(token)).await.unwrap());
            assert!(!fence.delete(conn, "state", numbered(token)).await.unwrap());
        }
        // A write raises the token as a claim does.
        fence.set(conn, "state", "new", numbered(9)).await.unwrap();
        assert_stale(fence.set(conn, "state", "old", numbered(8)).await, 8, 9);
        assert!(fence.delete(conn, "state", numbered(10)).await.unwrap());
        assert_stale(fence.set(conn, "state", "old", numbered(9)).await, 9, 10);
        assert_eq!(bench.newest().await, Some(10));
    });
}

#[test]
fn a_claim_closes_the_door_before_the_first_read() {
    Bench::run(async |mut bench| {
        let Bench { fence, conn, .. } = &mut bench;
        fence.set(conn, "balance", 100, numbered(1)).await.unwrap();
        fence.claim(conn, numbered(2)).await.unwrap();
        // The new holder has read 100 and written nothing yet. The old holder resumes.
        assert_stale(fence.set(conn, "balance", 50, numbered(1)).await, 1, 2);
        assert_eq!(bench.ask::<u64>(&["GET", "balance"]).await, 100);
    });
}

#[test]
fn tokens_are_compared_as_numbers_and_exactly() {
    Bench::run(async |mut bench| {
        let Bench { fence, conn, .. } = &mut bench;
        let (most, less) = (NUMBER_MAX, NUMBER_MAX - 1);
        for (older, newer) in [(9, 10), (99, 1_763_000_000_000_000), (less, most)] {
            fence.claim(conn, numbered(older)).await.unwrap();
            fence.claim(conn, numbered(newer)).await.unwrap();
            assert_stale(fence.set(conn, "state", "late", numbered(older)).await, older, newer);
        }
        assert_eq!(bench.newest().await, Some(most));
    });
}

#[test]
fn set_takes_the_options_of_set() {
    Bench::run(async |mut bench| {
        let Bench { fence, conn, .. } = &mut bench;
        let set = SetOptions::default();
        let expiring = set.clone().with_expiration(SetExpiry::PX(60_000));
        fence.set_options::<()>(conn, "k", "1", expiring, numbered(1)).await.unwrap();
        let keeping = set.clone().with_expiration(SetExpiry::KEEPTTL).get(true);
        let old: String = fence.set_options(conn, "k", "2", keeping, numbered(1)).await.unwrap();
        assert_eq!(old, "1");
        let ttl: i64 = redis::cmd("PTTL").arg("k").query_async(conn).await.unwrap();
        assert!((50_000..=60_000).contains(&ttl), "{ttl}");

        let if_absent = set.conditional_set(ExistenceCheck::NX);
        let done: bool =
            fence.set_options(conn, "k", "3", if_absent.clone(), numbered(2)).await.unwrap();
        assert!(!done);
        let done: bool = fence.set_options(conn, "l", "3", if_absent, numbered(2)).await.unwrap();
        assert!(done);

        // A plain set removes the time to live, and replaces a value of another type.
        fence.set(conn, "k", "4", numbered(2)).await.unwrap();
        assert_eq!(bench.ask::<i64>(&["PTTL", "k"]).await, -1);
        bench.ask::<()>(&["RPUSH", "list", "x"]).await;
        bench.fence.set(&mut bench.conn, "list", "5", numbered(2)).await.unwrap();
        assert_eq!(bench.ask::<String>(&["GET", "list"]).await, "5");
    });
}

#[test]
fn keys_and_values_are_bytes() {
    Bench::run(async |mut bench| {
        let Bench { fence, conn, .. } = &mut bench;
        let every_byte: Vec<u8> = (0..=255).collect();
        for bytes in [&every_byte[..], b"", b"\0", b"{}", b"\r\n$3"] {
            fence.set(conn, bytes, bytes, numbered(1)).await.unwrap();
            let back: Vec<u8> = redis::cmd("GET").arg(bytes).query_async(conn).await.unwrap();
            assert_eq!(back, bytes);
            assert!(fence.delete(conn, bytes, numbered(1)).await.unwrap());
        }
    });
}

#[test]
fn any_name_is_a_fence_of_its_own() {
    let long = "x".repeat(1024);
    let names = [
        "a",
        "A",
        "a ",
        "a/b",
        "{a}",
        "{}",
        "{}a",
        "}{",
        "a{b",
        "a}b",
        "{{a}}",
        "\0",
        "a\0b",
        "*",
        "[a]",
        "é",
        "e\u{301}",
        "锁",
        "\u{1f512}",
        "\r\n",
        "'",
        "\"",
        "]]",
        long.as_str(),
    ];
    Bench::run(async |mut bench| {
        for (token, name) in (1..).zip(names) {
            let fence = Fence::new(name).unwrap();
            assert!(fence.key().is_ascii() && fence.key().len() < 100, "{}", fence.key());
            assert_eq!(fence.name(), name);
            fence.set(&mut bench.conn, name, name, numbered(token)).await.unwrap();
        }
        // Each fence has seen its own token only.
        for (token, name) in (1..).zip(names) {
            let fence = Fence::new(name).unwrap();
            fence.claim(&mut bench.conn, numbered(token)).await.unwrap();
            assert_eq!(bench.ask::<u64>(&["GET", fence.key()]).await, token, "{name:?}");
        }
    });
    assert_eq!(Fence::new("").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(Fence::new("x".repeat(1025)).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_token_is_kept_for_ever_by_default() {
    Bench::run(async |mut bench| {
        let key = bench.fence.key().to_owned();
        let lasting = bench.fence.clone();
        let forgetful = lasting.clone().forget_after(FORGET_AFTER_MIN).unwrap();

        lasting.set(&mut bench.conn, "k", "v", numbered(1)).await.unwrap();
        assert_eq!(bench.ask::<i64>(&["PTTL", &key]).await, -1);

        // Every write renews the time to live, with the same token or a newer one.
        for token in [1, 2, 2] {
            bench.ask::<()>(&["PERSIST", &key]).await;
            forgetful.set(&mut bench.conn, "k", "v", numbered(token)).await.unwrap();
            let ttl = bench.ask::<i64>(&["PTTL", &key]).await;
            assert!((50_000..=60_000).contains(&ttl), "{ttl}");
        }
        bench.ask::<()>(&["PEXPIRE", &key, "1000000"]).await;
        forgetful.claim(&mut bench.conn, numbered(2)).await.unwrap();
        assert!(bench.ask::<i64>(&["PTTL", &key]).await <= 60_000);
        // A refused write does not renew the time to live.
        bench.ask::<()>(&["PEXPIRE", &key, "1000"]).await;
        assert_stale(forgetful.claim(&mut bench.conn, numbered(1)).await, 1, 2);
        assert!(bench.ask::<i64>(&["PTTL", &key]).await <= 1000);

        lasting.claim(&mut bench.conn, numbered(2)).await.unwrap();
        assert_eq!(bench.ask::<i64>(&["PTTL", &key]).await, -1);

        // As documented, a fence without a record accepts any token.
        bench.ask::<()>(&["DEL", &key]).await;
        forgetful.claim(&mut bench.conn, numbered(1)).await.unwrap();
    });
}

#[test]
fn a_time_to_forget_that_is_a_mistake_is_refused() {
    let fence = Fence::new("invoices").unwrap();
    for idle in [
        Duration::ZERO,
        FORGET_AFTER_MIN.mul_f64(0.999),
        FORGET_AFTER_MAX + Duration::from_nanos(1),
        Duration::MAX,
    ] {
        assert_failed(fence.clone().forget_after(idle), ErrorKind::Invalid, "cannot forget after");
    }
    fence.forget_after(FORGET_AFTER_MAX).unwrap();
}

#[test]
fn a_guarded_write_can_be_made_in_any_task() {
    Bench::run(async |bench| {
        let Bench { fence, mut conn, server } = bench;
        let task = is_send(async move {
            fence.claim(&mut conn, numbered(1)).await?;
            fence.set(&mut conn, "k", vec![1_u8, 2], numbered(1)).await?;
            let script = FencedScript::new("return #ARGV")?;
            fence.run::<u64>(&mut conn, &script, &["k", "l"], vec![1, 2, 3], numbered(1)).await
        });
        assert_eq!(tokio::spawn(task).await.unwrap().unwrap(), 3);
        drop(server);
    });
}
