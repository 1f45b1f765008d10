//! Members die, freeze, and come back.

use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};
use tenure_conformance::fault::stories::{exclusion, members};
use tenure_core::event::EventKind;
use tenure_core::{Locks, Loss, MutexGuard, WatchEvent};
use tenure_servers::Store as _;
use tenure_servers::etcd::{Cluster, Member};
use tokio::task::JoinSet;

use super::stage::{TTL, at_last, connect, play, soon, until_line};

/// A ttl of which no renewal falls into a test.
const LONG: Duration = Duration::from_secs(3600);

/// Checks that a lock outlives this trouble of the servers, and that its waiter is served
/// afterwards.
fn a_lock_outlives(trouble: impl FnOnce(&Cluster)) {
    play(3, async |cluster| {
        let (one, two) = (connect(&cluster).await, connect(&cluster).await);
        members::a_lock_outlives(one, two, TTL, || trouble(&cluster)).await;
    });
}

#[test]
fn a_lock_outlives_the_leader() {
    a_lock_outlives(|cluster| cluster.leader().unwrap().kill().unwrap());
}

#[test]
fn who_connects_while_a_leader_is_chosen_waits_for_it() {
    play(3, async |cluster| {
        for _ in 0..3 {
            let leader = cluster.leader().unwrap();
            leader.kill().unwrap();
            let url = format!("{}?timeout=10s", cluster.url());
            let locks = soon("it connects", tenure_etcd::connect(url)).await.unwrap();
            locks.mutex("k").lock().await.unwrap().release().await.unwrap();
            leader.restart().unwrap();
        }
    });
}

#[test]
fn who_connects_to_members_that_all_stand_still_waits_once_for_all_of_them() {
    const PATIENT: Duration = Duration::from_secs(6);
    play(3, async |cluster| {
        for member in cluster.members() {
            member.freeze().unwrap();
        }
        let (url, began) =
            (format!("{}?connect_timeout={}s", cluster.url(), PATIENT.as_secs()), Instant::now());
        let refused = tenure_etcd::connect(url).await.map(drop).unwrap_err();
        let took = began.elapsed();
        assert!(took < PATIENT * 2, "{took:?} is three times {PATIENT:?}");
        let said = refused.to_string();
        let all =
            cluster.members().iter().all(|member| said.contains(&format!(":{}", member.port())));
        assert!(refused.is_retryable() && all, "{said}");
    });
}

#[test]
fn a_lock_outlives_a_follower() {
    a_lock_outlives(|cluster| cluster.follower().unwrap().kill().unwrap());
}

#[test]
fn a_lock_outlives_a_leader_that_stands_still() {
    a_lock_outlives(|cluster| cluster.leader().unwrap().freeze().unwrap());
}

#[test]
fn a_lock_outlives_the_restart_of_every_member() {
    a_lock_outlives(|cluster| {
        for member in cluster.members() {
            member.kill().unwrap();
            member.restart().unwrap();
        }
    });
}

#[test]
fn a_lock_outlives_the_death_of_all_members_at_once() {
    a_lock_outlives(|cluster| {
        for member in cluster.members() {
            member.kill().unwrap();
        }
        for member in cluster.members() {
            member.begin().unwrap();
        }
    });
}

#[test]
fn without_a_majority_holders_are_told_and_with_it_again_locks_are_given_with_higher_numbers() {
    play(3, async |cluster| {
        let locks = connect(&cluster).await;
        let majority = [cluster.leader().unwrap(), cluster.follower().unwrap()];
        let stand_still = || majority.iter().for_each(|one| one.freeze().unwrap());
        let go_on = || majority.iter().for_each(|one| one.thaw().unwrap());
        members::the_loss_of_the_majority_is_told(locks, TTL, stand_still, go_on).await;
    });
}

/// Checks that many clients keep their locks. Some of them are connected to the member that
/// `stand_still` freezes.
fn holders_keep_their_locks(seconds: u64, stand_still: impl FnOnce(&Cluster)) {
    play(3, async |cluster| {
        let ttl = Duration::from_secs(seconds);
        let mut held = Vec::new();
        for at in 0..40 {
            let locks = connect(&cluster).await;
            held.push(locks.mutex(format!("k{at}")).ttl(ttl).lock().await.unwrap());
        }
        stand_still(&cluster);
        let lost = select_all(held.iter().map(|guard| Box::pin(guard.lost())));
        if let Ok((loss, ..)) = tokio::time::timeout(ttl * 2, lost).await {
            panic!("two of three members answer, and a holder was told: {loss}");
        }
    });
}

#[test]
fn holders_with_short_lives_keep_their_locks_while_a_follower_stands_still() {
    holders_keep_their_locks(3, |cluster| cluster.follower().unwrap().freeze().unwrap());
}

#[test]
fn holders_keep_their_locks_while_the_leader_stands_still() {
    holders_keep_their_locks(8, |cluster| cluster.leader().unwrap().freeze().unwrap());
}

#[test]
fn a_follower_that_stands_still_costs_a_caller_one_timeout() {
    const CLIENTS: usize = 40;
    const TIMEOUT: Duration = Duration::from_secs(10);
    play(3, async |cluster| {
        let url = format!("{}?timeout={}s", cluster.url(), TIMEOUT.as_secs());
        let visit = async |locks: &Locks, at: usize| {
            let mutex = locks.mutex(format!("k{at}")).ttl(LONG);
            let visit = async move { mutex.lock().await.unwrap().release().await.unwrap() };
            tokio::spawn(visit).await.unwrap();
        };
        let mut clients = Vec::new();
        for at in 0..CLIENTS {
            let locks = tenure_etcd::connect(&*url).await.unwrap();
            // After a few calls this runtime has a connection of its own, to the member that gets
            // the keep-alives.
            for _ in 0..10 {
                visit(&locks, at).await;
            }
            clients.push(locks);
        }
        cluster.follower().unwrap().freeze().unwrap();
        let visits = clients.iter().enumerate().map(async |(at, locks)| {
            let began = Instant::now();
            visit(locks, at).await;
            began.elapsed()
        });
        let longest = join_all(visits).await.into_iter().max().unwrap();
        println!("the longest visit of {CLIENTS} clients took {longest:?}");
        assert!(longest < TIMEOUT * 2, "{longest:?}");
    });
}

/// Checks that waiters are served and broken holders are notified soon after a follower is lost,
/// long before their next renewals.
fn listeners_outlive(lose: impl FnOnce(&Member)) {
    const CLIENTS: usize = 20;
    play(3, async |cluster| {
        let holder = connect(&cluster).await;
        let (mut held, mut waiting, mut broken) = (Vec::new(), JoinSet::new(), Vec::new());
        for at in 0..CLIENTS {
            let locks = connect(&cluster).await;
            let key = format!("k{at}");
            held.push(holder.mutex(&*key).ttl(LONG).lock().await.unwrap());
            broken.push(locks.mutex(format!("b{at}")).ttl(LONG).lock().await.unwrap());
            waiting.spawn(async move { locks.mutex(&*key).ttl(LONG).lock().await.map(drop) });
            until_line(&holder, &format!("k{at}"), 2).await;
        }
        let told: JoinSet<_> = broken.iter().map(MutexGuard::lost).collect();
        lose(cluster.follower().unwrap());
        for guard in held {
            guard.release().await.unwrap();
        }
        for served in soon("all are served", waiting.join_all()).await {
            served.unwrap();
        }
        for (at, guard) in broken.iter().enumerate() {
            at_last("it is broken", async || {
                holder.break_ticket(format!("b{at}"), guard.id()).await
            })
            .await;
        }
        for loss in soon("all are told", told.join_all()).await {
            assert_eq!(loss, Loss::Broken);
        }
    });
}

#[test]
fn listeners_outlive_a_follower_that_is_killed() {
    listeners_outlive(|follower| follower.kill().unwrap());
}

#[test]
fn listeners_outlive_a_follower_that_stands_still() {
    listeners_outlive(|follower| follower.freeze().unwrap());
}

#[test]
fn a_holder_is_told_before_its_lock_is_given_away() {
    play(1, async |cluster| {
        let (holder, other) = (connect(&cluster).await, connect(&cluster).await);
        let only = &cluster.members()[0];
        let stand_still = || only.freeze().unwrap();
        let go_on = || only.thaw().unwrap();
        members::a_holder_is_told_before_its_lock_is_given_away(
            holder,
            other,
            TTL,
            stand_still,
            go_on,
        )
        .await;
    });
}

#[test]
fn an_onlooker_outlives_the_member_that_it_listens_to() {
    play(3, async |cluster| {
        let (onlooker, locks) = (connect(&cluster).await, connect(&cluster).await);
        let mut watch = onlooker.watch_prefix("").await.unwrap();
        // This client sends no other requests, so only the watch can find that its member is gone.
        let first = soon("it is seen", watch.next());
        let (guard, first) = futures_util::future::join(locks.mutex("k").lock(), first).await;
        let told = |seen: tenure_core::Result<WatchEvent>| {
            let WatchEvent::Event(event) = seen.unwrap() else { panic!("nothing is missed") };
            (event.kind, event.number)
        };
        let guard = guard.unwrap();
        assert_eq!(told(first), (EventKind::Joined, guard.token().get()));
        for member in cluster.members() {
            member.kill().unwrap();
            member.restart().unwrap();
        }
        at_last("it is given back", async || {
            locks.line("k").await?;
            Ok(())
        })
        .await;
        let token = guard.token().get();
        guard.release().await.unwrap();
        for what in [EventKind::Served, EventKind::Left] {
            assert_eq!(told(soon("it is seen", watch.next()).await), (what, token));
        }
    });
}

#[test]
fn no_two_hold_while_members_stop_and_die() {
    play(3, async |cluster| {
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(connect(&cluster).await);
        }
        exclusion::no_two_hold(clients, TTL, async || {
            for _ in 0..2 {
                // A leader that is stopped here, and goes on, revokes leases that another one
                // has renewed: a fault of etcd before 3.4.31, of which the README warns.
                let follower = cluster.follower().unwrap();
                follower.freeze().unwrap();
                tokio::time::sleep(TTL * 2).await;
                follower.thaw().unwrap();
                tokio::time::sleep(TTL).await;
                let leader = cluster.leader().unwrap();
                leader.kill().unwrap();
                tokio::time::sleep(TTL * 2).await;
                leader.begin().unwrap();
                tokio::time::sleep(TTL).await;
            }
        })
        .await;
    });
}
