//! A replica that lags is promoted.

use std::time::Duration;

use tenure_core::{ErrorKind, Locks, MutexGuard};
use tenure_servers::mariadb::{Server, Setup};

use super::stage::{LONG, assert_refused, at_last, connect, number, play, soon, until};

/// The longest ttl in use.
const TTL: Duration = Duration::from_secs(4);

async fn lock(locks: &Locks, key: &str, ttl: Duration) -> MutexGuard {
    let mutex = locks.mutex(key).ttl(ttl);
    at_last("it is locked", async || mutex.lock().await).await
}

fn url_of_both(one: &Server, two: &Server) -> String {
    let port = format!("{}/", one.port());
    one.url().replace(&port, &format!("{},127.0.0.1:{}/", one.port(), two.port()))
}

/// Starts a server and a replica. The longest ttl is [`TTL`]: the least of new tables is 60 s.
async fn replicated() -> (Server, Server) {
    let primary = Setup::new().binary_log().start().unwrap();
    let locks = connect(primary.url()).await;
    primary.sql("UPDATE locks.tenure_meta SET longest_us = 0, longest_before_us = 0").unwrap();
    for key in ["k", "known"] {
        lock(&locks, key, TTL).await.release().await.unwrap();
    }
    let replica = primary.replica().unwrap();
    (primary, replica)
}

#[test]
fn a_replica_that_lags_is_promoted_and_tokens_grow_over_all_that_it_lacks() {
    play(async || {
        let (primary, replica) = replicated().await;
        let locks = connect(url_of_both(&primary, &replica)).await;
        let warnings = &locks.guarantees().warnings;
        let warned = warnings.iter().any(|warning| warning.contains("replicas are asynchronous"));
        assert!(warned, "{warnings:?}");
        replica.cut().unwrap();
        let mut tokens = Vec::new();
        for key in ["k", "k", "new"] {
            let guard = lock(&locks, key, TTL).await;
            tokens.push(guard.token());
            guard.release().await.unwrap();
        }
        primary.kill().unwrap();
        replica.promote().unwrap();
        for key in ["k", "new"] {
            let guard = lock(&locks, key, TTL).await;
            assert!(tokens.iter().all(|token| guard.token() > *token), "{key}: {tokens:?}");
            guard.release().await.unwrap();
        }
    });
}

/// Its clients would renew leases that the primary does not know.
#[test]
fn a_replica_that_takes_writes_is_refused_also_while_its_primary_is_away() {
    play(async || {
        let (primary, replica) = replicated().await;
        replica.sql("SET GLOBAL read_only = 0").unwrap();
        primary.kill().unwrap();
        let is_cut = "SHOW GLOBAL STATUS LIKE 'Slave_running'";
        until("it has noticed", async || replica.sql(is_cut).unwrap().ends_with("OFF")).await;
        let refused = tenure_mysql::connect(replica.url()).await.map(drop);
        let parts = ["127.0.0.1", "applies the changes of another server"];
        assert_refused(refused, ErrorKind::Unavailable, &parts);
        replica.promote().unwrap();
        connect(replica.url()).await;
    });
}

#[test]
fn a_quarantine_that_began_before_the_clock_was_set_back_is_as_long_as_the_longest_ttl() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        server.sql("UPDATE locks.tenure_meta SET longest_us = 0, longest_before_us = 0").unwrap();
        lock(&locks, "k", TTL).await.release().await.unwrap();
        // The clock was decades ahead.
        server.sql("UPDATE locks.tenure_meta SET serve_from_us = 4000000000000000").unwrap();
        assert!(locks.mutex("k").try_lock().await.unwrap().is_none(), "the quarantine");
        soon("it is served", lock(&locks, "k", TTL)).await.check().unwrap();
        let generation = "SELECT generation FROM locks.tenure_meta";
        assert_eq!(number(&server, generation), 0, "it is no other");
    });
}

/// A holder that the replica does not know, after the promotion. With the quarantine, its lease has
/// ended before another client is served; without it, two hold.
#[test]
fn a_holder_that_the_promoted_replica_does_not_know_has_ended_before_the_next_is_served() {
    play(async || {
        for is_quarantine_off in [false, true] {
            let (primary, replica) = replicated().await;
            let both = connect(url_of_both(&primary, &replica)).await;
            let known = lock(&both, "known", TTL).await;
            replica.catch_up(&primary).unwrap();
            if is_quarantine_off {
                let forget = "UPDATE locks.tenure_meta SET longest_us = 0, longest_before_us = 0";
                primary.sql(forget).unwrap();
                replica.catch_up(&primary).unwrap();
            }
            replica.cut().unwrap();
            let ttl = if is_quarantine_off { LONG } else { TTL };
            let unknown = lock(&connect(primary.url()).await, "k", ttl).await;
            primary.kill().unwrap();
            replica.promote().unwrap();
            let other = connect(replica.url()).await;
            at_last("a known holder renews", async || known.extend().await).await;
            let next = soon("it is served in the end", lock(&other, "k", TTL)).await;
            assert_eq!(unknown.check().is_ok(), is_quarantine_off);
            assert!(next.token() > unknown.token());
            next.check().unwrap();
            let quarantines = "SELECT serve_from_us > 0 FROM locks.tenure_meta";
            assert_eq!(number(&replica, quarantines), 1);
        }
    });
}
