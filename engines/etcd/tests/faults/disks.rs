//! Disks: one that is full, and one that comes back with older data.

use std::collections::BTreeSet;

use futures_util::future::{join_all, try_join_all};
use tenure_conformance::fault::Direction;
use tenure_core::{ErrorKind, Locks, Loss};
use tenure_servers::etcd::Cluster;

use super::between::Between;
use super::network::proxy_to;
use super::operators::revision;
use super::stage::{TTL, at_last, connect, play, play_on, soon, until_line};

/// Maximum size of the full member's data.
pub(super) const QUOTA_BYTES: u32 = 2 << 20;
/// Number of callers that fill a member together.
const CALLERS: usize = 40;
const STRANGER_BYTES: usize = 100 << 10;

/// Writes a stranger's keys until the member takes no more.
pub(super) fn fill(cluster: &Cluster) {
    let text = "x".repeat(STRANGER_BYTES);
    for number in 0..QUOTA_BYTES {
        if let Err(sentence) = cluster.ctl(&["put", &format!("stranger/{number}"), &text]) {
            assert!(sentence.contains("space exceeded"), "{sentence}");
            break;
        }
    }
    assert!(cluster.ctl(&["alarm", "list"]).unwrap().contains("NOSPACE"));
}

/// Does what an operator does about a full member.
pub(super) fn make_room(cluster: &Cluster) {
    cluster.ctl(&["del", "--prefix", "stranger/"]).unwrap();
    cluster.ctl(&["compact", &revision(cluster)]).unwrap();
    cluster.ctl(&["defrag"]).unwrap();
    cluster.ctl(&["alarm", "disarm"]).unwrap();
}

#[test]
fn a_full_member_takes_no_new_tickets_and_serves_those_it_has() {
    play_on(
        || Cluster::with_quota(QUOTA_BYTES),
        async |cluster| {
            let (locks, other) = (connect(&cluster).await, connect(&cluster).await);
            let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
            let waiting = tokio::spawn({
                let mutex = other.mutex("k").ttl(TTL);
                async move { mutex.lock().await }
            });
            until_line(&locks, "k", 2).await;
            fill(&cluster);

            let refused = locks.mutex("new").try_lock().await.map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
            let way_out = "make room with `etcdctl compact REVISION`, `etcdctl defrag` and `etcdctl alarm disarm`";
            let number = locks.sequence("s").next().await.map(drop).unwrap_err();
            let told = locks.break_ticket("k", guard.id()).await.map(drop).unwrap_err();
            for refused in [refused, number, told] {
                let said = refused.to_string();
                assert!(said.contains("takes nothing new") && said.ends_with(way_out), "{said}");
            }
            tokio::time::sleep(TTL * 2).await;
            guard.check().expect("it is kept alive");
            guard.release().await.expect("it can be given back");
            let next = soon("the waiter is served", waiting).await.unwrap().unwrap();
            next.release().await.unwrap();

            make_room(&cluster);
            let again = locks.mutex("new");
            drop(at_last("there is room again", async || again.lock().await).await);
        },
    );
}

#[test]
fn what_a_member_refuses_while_its_space_runs_out_is_not_in_its_line() {
    play_on(
        || Cluster::with_quota(QUOTA_BYTES),
        async |cluster| {
            let locks = connect(&cluster).await;
            let held = join_all((0..CALLERS).map(async |caller| {
                let mut guards = Vec::new();
                loop {
                    let key = format!("{caller}/{}/{}", guards.len(), "x".repeat(400));
                    match locks.mutex(key).ttl(TTL * 100).try_lock().await {
                        Ok(guard) => guards.push(guard.expect("nobody else asks for it")),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
                            return guards;
                        }
                    }
                }
            }));
            let held: Vec<_> = held.await.into_iter().flatten().collect();
            let keys: BTreeSet<_> = held.iter().map(|guard| guard.key().clone()).collect();
            let left: BTreeSet<_> = locks.keys("").await.unwrap().into_iter().collect();
            assert_eq!(left, keys);
            for guard in held {
                guard.release().await.expect("whoever holds can give back");
            }
        },
    );
}

#[test]
fn a_lock_goes_on_to_whoever_is_behind_although_its_member_is_full() {
    play_on(
        || Cluster::with_quota(QUOTA_BYTES),
        async |cluster| {
            let [a, b, c] =
                [connect(&cluster).await, connect(&cluster).await, connect(&cluster).await];
            let long = TTL * 20;
            let waits = |locks: &Locks| {
                let mutex = locks.mutex("k").ttl(long);
                tokio::spawn(async move { mutex.lock().await })
            };
            let first = a.mutex("k").ttl(long).lock().await.unwrap();
            let second = waits(&b);
            until_line(&a, "k", 2).await;
            let third = waits(&c);
            until_line(&a, "k", 3).await;
            first.release().await.unwrap();
            let second = soon("the second is served", second).await.unwrap().unwrap();
            fill(&cluster);
            second.release().await.expect("it can be given back");
            let third = soon("the third is served", third).await.unwrap().unwrap();
            third.release().await.unwrap();
        },
    );
}

#[test]
fn a_snapshot_that_is_restored_costs_holders_their_locks_and_is_refused_by_who_lived_through_it() {
    play(1, async |cluster| {
        let (locks, onlooker) = (connect(&cluster).await, connect(&cluster).await);
        let before = locks.mutex("a").ttl(TTL).lock().await.unwrap();
        let snapshot = cluster.save().unwrap();
        before.release().await.unwrap();
        // The snapshot knows nothing of these.
        let guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
        assert_eq!(onlooker.line("a").await.unwrap().len(), 1);
        cluster.restore(&snapshot).unwrap();

        let loss = soon("the holder is told", guard.lost()).await;
        assert!(matches!(loss, Loss::Unreachable | Loss::Expired | Loss::SessionGone), "{loss}");
        for client in [&locks, &onlooker] {
            let refused = soon("it is refused", async {
                loop {
                    match client.mutex("b").lock().await {
                        Err(error) if error.kind() == ErrorKind::Rejected => return error,
                        Err(_) => {}
                        Ok(guard) => panic!("{guard:?} has a number that was given before"),
                    }
                }
            });
            let sentence = refused.await.to_string();
            assert!(sentence.contains("went back to an older revision"), "{sentence}");
        }
    });
}

/// A join was carried out, its answer was lost, and its owner has gone. A full member still removes
/// its ticket, and the next waiter is served.
#[test]
fn a_full_member_lets_go_of_a_ticket_whose_join_was_not_answered() {
    play_on(
        || Cluster::with_quota(QUOTA_BYTES),
        async |cluster| {
            let (proxy, ttl) = (proxy_to(&cluster), TTL * 4);
            let url = format!("etcd://127.0.0.1:{}?timeout=500ms", proxy.port());
            let locks = soon("it connects", tenure_etcd::connect(url)).await.unwrap();
            let other = connect(&cluster).await;
            locks.mutex("warm").ttl(ttl).lock().await.unwrap().release().await.unwrap();
            proxy.black_hole_for(Direction::Replies);
            let joining = tokio::spawn({
                let mutex = locks.mutex("k").ttl(ttl);
                async move { mutex.lock().await.map(drop) }
            });
            until_line(&other, "k", 1).await;
            joining.abort();
            joining.await.expect_err("it was given up");
            let waiting = tokio::spawn({
                let mutex = other.mutex("k").ttl(TTL * 100);
                async move { mutex.lock().await }
            });
            until_line(&other, "k", 2).await;
            fill(&cluster);
            proxy.cut();
            proxy.heal();
            drop(soon("the waiter is served", waiting).await.unwrap().unwrap());
        },
    );
}

/// A join was carried out, its next request had no answer, and the repeated join is refused. Its
/// ticket does not stay in the line.
#[test]
fn a_join_that_is_refused_when_it_is_asked_for_again_is_not_in_its_line() {
    const PERMITS: u32 = 300;
    const HELD: usize = 200;
    play_on(
        || Cluster::with_quota(QUOTA_BYTES),
        async |cluster| {
            let between = Between::of(&cluster).await;
            let url = format!("{}?timeout=5s", between.url());
            let locks = soon("it connects", tenure_etcd::connect(url)).await.unwrap();
            let (other, ttl) = (connect(&cluster).await, TTL * 100);
            locks.mutex("warm").ttl(ttl).lock().await.unwrap().release().await.unwrap();
            let permits = other.semaphore("s", PERMITS).ttl(ttl);
            let _held = try_join_all((0..HELD).map(|_| permits.acquire())).await.unwrap();
            between.hold_next("Range");
            let joining = tokio::spawn({
                let permits = locks.semaphore("s", PERMITS).ttl(ttl);
                async move { permits.acquire().await.map(drop) }
            });
            let _never = soon("it came in", between.held()).await;
            until_line(&other, "s", HELD + 1).await;
            fill(&cluster);
            let refused = soon("it is answered", joining).await.unwrap().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable, "it may be in: {refused}");
            make_room(&cluster);
            until_line(&other, "s", HELD).await;
        },
    );
}
