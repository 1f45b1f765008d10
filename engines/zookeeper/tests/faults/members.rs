//! Servers die, freeze, and come back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tenure_conformance::fault::stories::{exclusion, members};
use tenure_servers::Store as _;
use tenure_servers::zookeeper::Ensemble;

use super::stage::{TTL, at_last, connect, play, soon};

/// Time after which a session that is not for tickets is replaced if it is cut off.
const CUT_OFF: Duration = Duration::from_secs(1);

/// Checks that a lock outlives this trouble of the servers, and that its waiter is served
/// afterwards.
fn a_lock_outlives(trouble: impl FnOnce(&Ensemble)) {
    play(3, async |ensemble| {
        let (one, two) = (connect(&ensemble).await, connect(&ensemble).await);
        members::a_lock_outlives(one, two, TTL, || trouble(&ensemble)).await;
    });
}

#[test]
fn a_lock_outlives_the_leader() {
    a_lock_outlives(|ensemble| ensemble.leader().unwrap().kill().unwrap());
}

#[test]
fn who_connects_while_a_leader_is_chosen_waits_for_it() {
    play(3, async |ensemble| {
        for _ in 0..3 {
            let leader = ensemble.leader().unwrap();
            leader.kill().unwrap();
            let url = format!("{}?timeout=10s", ensemble.url());
            let locks = soon("it connects", tenure_zookeeper::connect(url)).await.unwrap();
            locks.mutex("k").lock().await.unwrap().release().await.unwrap();
            leader.restart().unwrap();
        }
    });
}

#[test]
fn a_lock_outlives_a_follower() {
    a_lock_outlives(|ensemble| ensemble.follower().unwrap().kill().unwrap());
}

#[test]
fn a_lock_outlives_a_leader_that_stands_still() {
    a_lock_outlives(|ensemble| ensemble.leader().unwrap().freeze().unwrap());
}

#[test]
fn who_comes_while_one_server_stands_still_is_let_in_by_the_others() {
    play(3, async |ensemble| {
        ensemble.follower().unwrap().freeze().unwrap();
        for at in 0..4 {
            let locks = tenure_zookeeper::connect(ensemble.url()).await.expect("two let it in");
            let mutex = locks.mutex(format!("k{at}")).ttl(TTL);
            mutex.lock().await.expect("two serve it").release().await.expect("two are asked");
        }
    });
}

#[test]
fn a_lock_outlives_the_restart_of_every_server() {
    a_lock_outlives(|ensemble| {
        for server in ensemble.servers() {
            server.kill().unwrap();
            server.restart().unwrap();
        }
    });
}

#[test]
fn without_a_majority_holders_are_told_and_with_it_again_locks_are_given_with_higher_numbers() {
    play(3, async |ensemble| {
        let locks = connect(&ensemble).await;
        let majority = [ensemble.leader().unwrap(), ensemble.follower().unwrap()];
        let stand_still = || majority.iter().for_each(|one| one.freeze().unwrap());
        let go_on = || majority.iter().for_each(|one| one.thaw().unwrap());
        members::the_loss_of_the_majority_is_told(locks, TTL, stand_still, go_on).await;
    });
}

#[test]
fn a_holder_is_told_before_its_lock_is_given_away() {
    play(1, async |ensemble| {
        let (holder, other) = (connect(&ensemble).await, connect(&ensemble).await);
        let only = &ensemble.servers()[0];
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

/// Returns the sessions that are connected to a server.
fn sessions(ensemble: &Ensemble) -> BTreeSet<String> {
    let said = ensemble.servers()[0].ask("cons").expect("it answers");
    let parts = said.split(['(', ',', ')']);
    parts.filter_map(|part| part.strip_prefix("sid=")).map(str::to_owned).collect()
}

#[test]
fn a_session_without_tickets_that_was_cut_off_is_replaced_as_soon_as_a_server_answers() {
    play(1, async |ensemble| {
        let locks = connect(&ensemble).await;
        locks.keys("").await.unwrap();
        let before = sessions(&ensemble);
        assert_eq!(before.len(), 1, "it has no tickets: {before:?}");
        ensemble.servers()[0].kill().unwrap();
        let killed = Instant::now();
        loop {
            // A call waits as long for the connection as the session may be cut off: only one that
            // is made after that finds it so.
            let is_cut_off = killed.elapsed() > CUT_OFF * 2;
            assert!(locks.keys("").await.is_err_and(|error| error.is_retryable()));
            if is_cut_off {
                break;
            }
        }
        // The old session would live on, and try again after a pause as long as it was cut off.
        ensemble.servers()[0].restart().unwrap();
        at_last("it is answered", async || locks.keys("").await).await;
        assert!(sessions(&ensemble).is_disjoint(&before), "the session is another one");
    });
}

#[test]
fn no_two_hold_while_servers_stop_and_die() {
    play(3, async |ensemble| {
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(connect(&ensemble).await);
        }
        exclusion::no_two_hold(clients, TTL, async || {
            for _ in 0..2 {
                let leader = ensemble.leader().unwrap();
                leader.freeze().unwrap();
                tokio::time::sleep(TTL * 2).await;
                leader.thaw().unwrap();
                tokio::time::sleep(TTL * 2).await;
                let follower = ensemble.follower().unwrap();
                follower.kill().unwrap();
                tokio::time::sleep(TTL).await;
                follower.begin().unwrap();
                tokio::time::sleep(TTL).await;
            }
        })
        .await;
    });
}
