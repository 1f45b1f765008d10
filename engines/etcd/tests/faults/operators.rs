//! An operator does things to leases and keys.

use std::time::Duration;

use tenure_conformance::fault::stories::unreadable::a_stranger_hides_nobody_ahead_of_it;
use tenure_core::{ErrorKind, Loss};
use tenure_servers::Store as _;
use tenure_servers::etcd::Cluster;

use super::stage::{TTL, connect, play, soon, until_line};

/// Returns the leases that tickets are bound to.
pub(super) fn leases(cluster: &Cluster) -> Vec<String> {
    let keys = cluster.ctl(&["get", "--prefix", "--keys-only", "tenure/v1/s/"]).unwrap();
    let leases = keys.lines().filter_map(|key| key.rsplit_once('/'));
    leases.map(|(_, lease)| lease.trim_start_matches('0').to_owned()).collect()
}

/// Returns the keys of all tickets, in the order of their joins.
pub(super) fn keys(cluster: &Cluster) -> Vec<String> {
    let sorted = ["get", "--prefix", "--keys-only", "--sort-by=CREATE", "tenure/v1/t/"];
    let keys = cluster.ctl(&sorted).unwrap();
    keys.lines().filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

/// Returns the current revision.
pub(super) fn revision(cluster: &Cluster) -> String {
    let status = cluster.ctl(&["endpoint", "status", "--write-out=json"]).unwrap();
    let revision = status.split("\"revision\":").nth(1).unwrap();
    revision.split(|c: char| !c.is_ascii_digit()).next().unwrap().to_owned()
}

#[test]
fn who_holds_and_who_waits_are_told_at_once_when_the_lease_is_revoked() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        let guard = locks.mutex("k").lock().await.unwrap();
        let lease = leases(&cluster).remove(0);
        cluster.ctl(&["lease", "revoke", &lease]).unwrap();
        let loss = soon("the holder is told", guard.lost()).await;
        assert!(matches!(loss, Loss::Broken | Loss::SessionGone), "{loss}");
        let next = locks.mutex("k").lock().await.expect("the next lock opens a new session");
        assert!(next.token() > guard.token());
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
        next.check().expect("the end of the old one touches nobody");
        next.release().await.unwrap();
    });
}

#[test]
fn a_holder_whose_key_is_deleted_is_told_at_once() {
    play(1, async |cluster| {
        let (locks, other) = (connect(&cluster).await, connect(&cluster).await);
        let guard = locks.mutex("k").lock().await.unwrap();
        let waiting = tokio::spawn(async move { other.mutex("k").lock().await });
        until_line(&locks, "k", 2).await;
        cluster.ctl(&["del", &keys(&cluster)[0]]).unwrap();
        assert_eq!(soon("the holder is told", guard.lost()).await, Loss::Broken);
        let next = soon("the next is served", waiting).await.unwrap().unwrap();
        assert!(next.token() > guard.token());
    });
}

#[test]
fn a_waiter_whose_key_is_deleted_does_not_hold() {
    play(1, async |cluster| {
        let (locks, other) = (connect(&cluster).await, connect(&cluster).await);
        let guard = locks.mutex("k").lock().await.unwrap();
        let waiting = tokio::spawn(async move { other.mutex("k").lock().await });
        until_line(&locks, "k", 2).await;
        cluster.ctl(&["del", &keys(&cluster)[1]]).unwrap();
        let told = soon("the waiter is told", waiting).await.unwrap();
        assert_eq!(told.map(drop).unwrap_err().loss(), Some(Loss::Broken));
        guard.check().unwrap();
    });
}

#[test]
fn a_watch_outlives_a_compaction() {
    play(1, async |cluster| {
        let (locks, other) = (connect(&cluster).await, connect(&cluster).await);
        let guard = locks.mutex("k").lock().await.unwrap();
        let waiting = tokio::spawn(async move { other.mutex("k").lock().await });
        until_line(&locks, "k", 2).await;
        for _ in 0..20 {
            cluster.ctl(&["put", "a-stranger", "x"]).unwrap();
        }
        cluster.ctl(&["compact", &revision(&cluster)]).unwrap();
        guard.release().await.unwrap();
        soon("the waiter is served", waiting).await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn a_clean_end_leaves_nothing_behind() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        let (guard, other) = (
            locks.mutex("a").lock().await.unwrap(),
            locks.mutex("b").ttl(TTL).lock().await.unwrap(),
        );
        guard.release().await.unwrap();
        drop(other);
        locks.close().await;
        let left = cluster.ctl(&["get", "--prefix", "--keys-only", "tenure/"]).unwrap();
        assert_eq!(left.trim(), "");
        let leases = cluster.ctl(&["lease", "list"]).unwrap();
        assert!(leases.contains("found 0 leases"), "{leases}");
    });
}

#[test]
fn a_short_ttl_has_a_lease_of_its_own() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        let long = locks.mutex("long").ttl(Duration::from_secs(60)).lock().await.unwrap();
        let short = locks.mutex("short").ttl(TTL).lock().await.unwrap();
        assert_eq!(leases(&cluster).len(), 2);
        let lives = async |key: &str| locks.line(key).await.unwrap()[0].life.expect("it ends");
        assert!(lives("short").await <= TTL && lives("long").await > TTL * 10);
        long.check().unwrap();
        short.check().unwrap();
    });
}

#[test]
fn no_session_is_shorter_than_the_url_says() {
    play(1, async |cluster| {
        let url = format!("{}?session_ttl=20s", cluster.url());
        let locks = tenure_etcd::connect(url).await.unwrap();
        let _short = locks.mutex("short").ttl(TTL).lock().await.unwrap();
        let life = locks.line("short").await.unwrap()[0].life.expect("it ends");
        assert!(life > TTL * 5, "{life:?}");
    });
}

#[test]
fn an_operator_sees_for_how_long_the_tickets_of_others_live() {
    play(1, async |cluster| {
        let (locks, operator) = (connect(&cluster).await, connect(&cluster).await);
        let _held = locks.mutex("k").ttl(Duration::from_secs(600)).lock().await.unwrap();
        let waiting = tokio::spawn({
            let mutex = locks.mutex("k").ttl(Duration::from_secs(200));
            async move { mutex.lock().await }
        });
        until_line(&operator, "k", 2).await;
        let before = cluster.members()[0].requests("LeaseTimeToLive");
        let line = operator.line("k").await.unwrap();
        let lives: Vec<_> = line.iter().map(|place| place.life.expect("it ends")).collect();
        assert!(lives[0] > Duration::from_secs(350) && lives[0] <= Duration::from_secs(600));
        assert!(lives[1] > Duration::from_secs(100) && lives[1] <= Duration::from_secs(200));
        assert_eq!(cluster.members()[0].requests("LeaseTimeToLive") - before, 2);
        locks.line("k").await.unwrap();
        let after = cluster.members()[0].requests("LeaseTimeToLive");
        assert_eq!(after - before, 2, "a client knows of its own sessions");
        waiting.abort();
    });
}

#[test]
fn a_look_at_a_line_asks_for_few_sessions() {
    play(1, async |cluster| {
        let operator = connect(&cluster).await;
        let mut clients = Vec::new();
        for at in 0..12 {
            let locks = connect(&cluster).await;
            let mutex = locks.mutex("k").ttl(Duration::from_secs(600));
            clients.push((locks, tokio::spawn(async move { mutex.lock().await })));
            until_line(&operator, "k", at + 1).await;
        }
        let before = cluster.members()[0].requests("LeaseTimeToLive");
        let line = operator.line("k").await.unwrap();
        assert_eq!(line.iter().filter(|place| place.life.is_some()).count(), 8);
        assert_eq!(cluster.members()[0].requests("LeaseTimeToLive") - before, 8);
    });
}

/// Puts a value under the name of a ticket, as another version of Tenure might.
fn put_stranger(cluster: &Cluster, ticket: &str) -> String {
    let stranger = format!("{}f", &ticket[..ticket.len() - 1]);
    cluster.ctl(&["put", &stranger, "tenure2 of another form"]).unwrap();
    stranger
}

#[test]
fn a_ticket_that_cannot_be_read_keeps_others_out_as_any_other_does() {
    play(1, async |cluster| {
        let (locks, other) = (connect(&cluster).await, connect(&cluster).await);
        let guard = locks.mutex("k").lock().await.unwrap();
        let held = keys(&cluster).remove(0);
        guard.release().await.unwrap();
        let stranger = put_stranger(&cluster, &held);
        for locks in [&locks, &other] {
            let refused = locks.mutex("k").lock().await.map(drop).expect_err("it is held");
            let looked = locks.line("k").await.expect_err("somebody stands there");
            for refused in [refused, looked] {
                assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
                let line = held.rsplitn(4, '/').last().unwrap();
                for part in ["cannot be read", "\"k\"", line, "when no client holds the lock"] {
                    assert!(refused.to_string().contains(part), "{part}: {refused}");
                }
            }
            let tried = locks.mutex("k").try_lock().await;
            assert!(!tried.is_ok_and(|tried| tried.is_some()), "it is held");
            locks.flush().await;
            assert_eq!(keys(&cluster), [stranger.as_str()], "nothing is left of who was refused");
        }
        cluster.ctl(&["del", &stranger]).unwrap();
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn who_waits_behind_a_ticket_that_cannot_be_read_learns_of_it_before_its_next_heartbeat() {
    /// Its heartbeats are hours apart.
    const LONG: Duration = Duration::from_secs(24 * 3600);
    play(1, async |cluster| {
        let (locks, other) = (connect(&cluster).await, connect(&cluster).await);
        let guard = locks.mutex("k").ttl(LONG).lock().await.unwrap();
        let waiting = other.mutex("k").ttl(LONG);
        let waiting = tokio::spawn(async move { waiting.lock().await });
        until_line(&locks, "k", 2).await;
        let held = keys(&cluster).remove(0);
        cluster.ctl(&["put", "--ignore-lease", &held, "tenure2 of another form"]).unwrap();
        let refused = soon("it is refused", waiting).await.unwrap().map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
        soon("it leaves", async {
            while keys(&cluster).len() > 1 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        drop(guard);
    });
}

#[test]
fn a_ticket_that_cannot_be_read_hides_nobody_ahead_of_it() {
    play(1, async |cluster| {
        let (locks, other) = (connect(&cluster).await, connect(&cluster).await);
        let comes = async || {
            put_stranger(&cluster, &keys(&cluster)[0]);
        };
        a_stranger_hides_nobody_ahead_of_it(&locks, &other, TTL * 4, comes).await;
    });
}

#[test]
fn a_number_that_is_overwritten_with_something_else_is_not_begun_anew() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        let sequence = locks.sequence("k");
        for number in 1..=3 {
            assert_eq!(sequence.next().await.unwrap(), number);
        }
        let key = cluster.ctl(&["get", "--prefix", "--keys-only", "tenure/v1/c/"]).unwrap();
        cluster.ctl(&["put", key.trim(), "three"]).unwrap();
        let refused = sequence.next().await.expect_err("it was given before");
        assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
        for part in
            ["a stored number cannot be read", "\"k\"", key.trim(), "write a number that is larger"]
        {
            assert!(refused.to_string().contains(part), "{part}: {refused}");
        }
        cluster.ctl(&["put", key.trim(), "3"]).unwrap();
        assert_eq!(sequence.next().await.unwrap(), 4);
    });
}
