//! A standby that lags is promoted.

use std::time::Duration;

use tenure_conformance::fault::stories::exclusion;
use tenure_core::{Locks, MutexGuard};
use tenure_servers::postgres::{FAKETIME, Server, Setup};

use super::stage::{LONG, at_last, connect, number, play, play_with, soon, until};

/// The longest ttl in use.
const TTL: Duration = Duration::from_secs(5);

/// Makes the tables, with the longest ttl of these tests: the least of new tables is 60 s.
async fn tables(server: &Server) {
    let locks = connect(server.url()).await;
    server.sql("UPDATE tenure.meta SET longest_us = 0, longest_before_us = 0").unwrap();
    for key in ["k", "known"] {
        locks.mutex(key).ttl(TTL).lock().await.unwrap().release().await.unwrap();
    }
}

fn url_of_both(one: &Server, two: &Server) -> String {
    let port = format!("{}/", one.port());
    one.url().replace(&port, &format!("{},127.0.0.1:{}/", one.port(), two.port()))
}

async fn until_replicated(primary: &Server, standby: &Server) {
    let at = primary.sql("SELECT pg_current_wal_lsn()").unwrap();
    let behind = format!("SELECT (pg_last_wal_replay_lsn() < '{at}')::int");
    until("the standby has it", async || number(standby, &behind) == 0).await;
}

async fn lock(locks: &Locks, key: &str, ttl: Duration) -> MutexGuard {
    let mutex = locks.mutex(key).ttl(ttl);
    at_last("it is locked", async || mutex.lock().await).await
}

#[test]
fn tokens_grow_through_the_promotion_of_a_standby_that_lags_and_is_an_hour_behind() {
    play_with(&[FAKETIME], async || {
        for behind in [0, 3600] {
            let primary = Setup::new().settable_clock().start().unwrap();
            tables(&primary).await;
            let standby = primary.standby(false).unwrap();
            standby.set_clock(-behind).unwrap();
            let locks = connect(url_of_both(&primary, &standby)).await;
            until_replicated(&primary, &standby).await;
            standby.cut().unwrap();
            let mut tokens = Vec::new();
            for key in ["k", "k", "new"] {
                let guard = lock(&locks, key, TTL).await;
                tokens.push(guard.token());
                guard.release().await.unwrap();
            }
            primary.kill().unwrap();
            standby.promote().unwrap();
            for key in ["k", "new"] {
                let guard = lock(&locks, key, TTL).await;
                assert!(
                    tokens.iter().all(|token| guard.token() > *token),
                    "{behind} s: {tokens:?}"
                );
                guard.release().await.unwrap();
            }
        }
    });
}

/// The end of a promotion that a holder unknown to the standby lives through.
struct Promoted {
    /// Granted after the standby was cut off.
    unknown: MutexGuard,
    /// A client of the standby.
    other: Locks,
    standby: Server,
    primary: Server,
}

async fn promoted(is_quarantine_off: bool, ttl: Duration) -> Promoted {
    let primary = Server::start().unwrap();
    tables(&primary).await;
    if is_quarantine_off {
        primary.sql("UPDATE tenure.meta SET longest_us = 0, longest_before_us = 0").unwrap();
    }
    let standby = primary.standby(false).unwrap();
    let both = connect(url_of_both(&primary, &standby)).await;
    let known = lock(&both, "known", TTL).await;
    until_replicated(&primary, &standby).await;
    if is_quarantine_off {
        // The holder of `known` has a ttl that the tables remember.
        primary.sql("UPDATE tenure.meta SET longest_us = 0, longest_before_us = 0").unwrap();
        until_replicated(&primary, &standby).await;
    }
    standby.cut().unwrap();
    let alone = connect(primary.url()).await;
    let unknown = lock(&alone, "k", ttl).await;
    primary.kill().unwrap();
    standby.promote().unwrap();
    let other = connect(standby.url()).await;
    at_last("a known holder renews", async || known.extend().await).await;
    Promoted { unknown, other, standby, primary }
}

#[test]
fn the_holders_that_a_promoted_standby_does_not_know_have_ended_before_it_serves() {
    play(async || {
        let Promoted { unknown, other, standby, primary: _dead } = promoted(false, TTL).await;
        let serve_from = "SELECT (serve_from_us > 0)::int FROM tenure.meta";
        assert_eq!(number(&standby, serve_from), 1);
        let next = soon("it is served in the end", lock(&other, "k", TTL)).await;
        unknown.check().expect_err("it has ended before the next was served");
        assert!(next.token() > unknown.token());
    });
}

#[test]
fn without_the_quarantine_two_hold_after_a_promotion() {
    play(async || {
        let Promoted { unknown, other, standby: _lives, primary: _dead } =
            promoted(true, LONG).await;
        let next = soon("it is served at once", lock(&other, "k", TTL)).await;
        unknown.check().expect("the test above can fail");
        next.check().expect("the test above can fail");
    });
}

#[test]
fn data_files_of_a_restored_dump_begin_a_quarantine_and_have_larger_numbers() {
    play(async || {
        for change in ["system = system + 1", "table_oid = 1"] {
            let server = Server::start().unwrap();
            let locks = connect(server.url()).await;
            // The numbers of a later timeline, in a line that a sweep has deleted.
            server.sql("UPDATE tenure.meta SET generation = 3").unwrap();
            let held = lock(&locks, "k", LONG).await;
            let before = lock(&locks, "free", LONG).await;
            let token = before.token();
            before.release().await.unwrap();
            server.sql("DELETE FROM tenure.line WHERE key = 'free'").unwrap();
            // A dump is restored into other data files, or into another table.
            server.sql(&format!("UPDATE tenure.meta SET {change}")).unwrap();
            assert!(locks.mutex("free").try_lock().await.unwrap().is_none(), "the quarantine");
            held.extend().await.unwrap();
            assert_eq!(number(&server, "SELECT (serve_from_us > 0)::int FROM tenure.meta"), 1);
            server.sql("UPDATE tenure.meta SET serve_from_us = 0").unwrap();
            let after = lock(&locks, "free", LONG).await;
            assert!(after.token() > token, "{} after {token}", after.token());
            assert_eq!(number(&server, "SELECT generation FROM tenure.meta"), 4);
        }
    });
}

#[test]
fn a_quarantine_that_began_before_the_clock_was_set_back_is_as_long_as_the_longest_ttl() {
    play(async || {
        let server = Server::start().unwrap();
        tables(&server).await;
        let locks = connect(server.url()).await;
        // The clock was decades ahead.
        server.sql("UPDATE tenure.meta SET serve_from_us = 4000000000000000").unwrap();
        assert!(locks.mutex("k").try_lock().await.unwrap().is_none(), "the quarantine");
        soon("it is served", lock(&locks, "k", TTL)).await.check().unwrap();
        assert_eq!(number(&server, "SELECT generation FROM tenure.meta"), 0, "it is no other");
    });
}

#[test]
fn no_two_hold_while_a_standby_that_lags_is_promoted_under_load() {
    play(async || {
        let primary = Server::start().unwrap();
        tables(&primary).await;
        let standby = primary.standby(false).unwrap();
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(connect(url_of_both(&primary, &standby)).await);
        }
        exclusion::no_two_hold(clients, Duration::from_secs(3), async || {
            tokio::time::sleep(TTL / 2).await;
            standby.cut().unwrap();
            tokio::time::sleep(TTL / 2).await;
            primary.kill().unwrap();
            standby.promote().unwrap();
        })
        .await;
    });
}

#[test]
fn a_sweep_does_not_forget_the_ttl_of_a_lease_that_is_nearly_over() {
    play(async || {
        let server = Server::start().unwrap();
        tables(&server).await;
        let held = lock(&connect(server.url()).await, "k", LONG).await;
        server.sql("UPDATE tenure.line SET at_us = ends_us - 1000000 WHERE key = 'k'").unwrap();
        // The first keeps the longest ttl before it as well.
        for _ in 0..2 {
            server.sql("SELECT tenure.sweep_1('1s', 3600000000, 1000000, 0)").unwrap();
        }
        let longest = "SELECT longest_us || ' ' || longest_before_us FROM tenure.meta";
        let ttl = LONG.as_micros();
        assert_eq!(server.sql(longest).unwrap().trim(), format!("{ttl} {ttl}"));
        held.check().unwrap();
    });
}
