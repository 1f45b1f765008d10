//! Forty callers at once, of a member that is full, came back with older data, or was frozen. The
//! tests check the costs of their requests, and what is left of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tenure_core::event::EventKind;
use tenure_core::{
    ErrorKind, LeaveOutcome, Locks, Loss, MutexGuard, Permit, ReadGuard, Result, WatchEvent,
};
use tenure_servers::etcd::Cluster;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::between::Between;
use super::disks::{QUOTA_BYTES, fill, make_room};
use super::operators::leases;
use super::stage::{TTL, at_last, connect, play, play_on, soon, until_line};

const CALLERS: u64 = 40;
/// A ttl of which no renewal falls into a test.
const LONG: Duration = Duration::from_secs(3600);

/// Takes and releases a lock for each caller.
async fn ask(locks: &Locks) -> Vec<Result<()>> {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let mutex = locks.mutex(format!("{caller}")).ttl(LONG);
        callers.spawn(async move { mutex.lock().await?.release().await });
    }
    soon("all have their answers", callers.join_all()).await
}

/// Returns the number of requests that a member has had.
fn requests(cluster: &Cluster) -> u64 {
    let member = &cluster.members()[0];
    ["Txn", "Range", "Put", "LeaseGrant", "Authenticate"].map(|it| member.requests(it)).iter().sum()
}

#[test]
fn forty_callers_of_a_full_member_are_each_refused_with_one_request_and_one_look() {
    play_on(
        || Cluster::with_quota(QUOTA_BYTES),
        async |cluster| {
            let between = Between::of(&cluster).await;
            let locks = tenure_etcd::connect(between.url()).await.unwrap();
            locks.mutex("warm").ttl(LONG).lock().await.unwrap().release().await.unwrap();
            fill(&cluster);
            let before = requests(&cluster);
            for _ in 0..5 {
                for refused in ask(&locks).await {
                    let error = refused.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
                }
            }
            locks.flush().await;
            // A full member may have carried out a request that it refused, so each join reads once
            // whether its ticket is in.
            assert_eq!(requests(&cluster) - before, 2 * 5 * CALLERS);
            assert_eq!(
                between.streams("Status"),
                2,
                "the engine's connection and this runtime's are the same"
            );

            make_room(&cluster);
            let again = ask(&locks).await;
            assert!(again.iter().all(Result::is_ok), "{again:?}");
            assert!(locks.keys("").await.unwrap().is_empty());
        },
    );
}

#[test]
fn forty_callers_of_a_member_with_older_data_are_refused_and_ask_no_more() {
    play(1, async |cluster| {
        let (locks, other) = (connect(&cluster).await, connect(&cluster).await);
        let snapshot = cluster.save().unwrap();
        let guard = locks.mutex("held").ttl(TTL).lock().await.unwrap();
        let mut waiting = JoinSet::new();
        for _ in 0..CALLERS {
            let mutex = other.mutex("held").ttl(TTL);
            waiting.spawn(async move { mutex.lock().await.map(drop) });
        }
        until_line(&locks, "held", 1 + usize::try_from(CALLERS).unwrap()).await;
        cluster.restore(&snapshot).unwrap();

        soon("the holder is told", guard.lost()).await;
        for told in soon("all who wait are told", waiting.join_all()).await {
            told.expect_err("its number would be given again");
        }
        let is_refused = async || match locks.mutex("k").try_lock().await {
            Err(error) if error.kind() == ErrorKind::Rejected => Ok(()),
            Err(error) => Err(error),
            Ok(guard) => panic!("{guard:?} has a number that was given before"),
        };
        at_last("it is noticed", is_refused).await;
        for refused in ask(&locks).await {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Rejected);
        }
        tokio::time::sleep(TTL).await;
        let before = requests(&cluster);
        tokio::time::sleep(Duration::from_secs(3)).await;
        let asked = requests(&cluster) - before;
        assert!(asked <= CALLERS, "{asked} requests of clients that were refused");
    });
}

#[test]
fn what_forty_callers_gave_up_is_not_carried_out_in_bulk_when_the_member_wakes() {
    const ROUNDS: u64 = 50;
    play(1, async |cluster| {
        let (locks, member) = (connect(&cluster).await, &cluster.members()[0]);
        locks.mutex("warm").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        let before = requests(&cluster);
        member.freeze().unwrap();
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let locks = locks.clone();
            callers.spawn(async move {
                for round in 0..ROUNDS {
                    let mutex = locks.mutex(format!("{caller} {round}")).ttl(TTL * 2);
                    let within = Duration::from_millis(5);
                    if let Ok(Ok(_)) = tokio::time::timeout(within, mutex.lock()).await {
                        panic!("nobody answers");
                    }
                }
            });
        }
        soon("all have given up", callers.join_all()).await;
        member.thaw().unwrap();
        soon("nothing is left to do", locks.flush()).await;
        let asked = requests(&cluster) - before;
        println!("{asked} requests for {} tickets that were given up", CALLERS * ROUNDS);
        assert!(asked <= CALLERS * ROUNDS, "{asked} requests");
        assert!(locks.keys("").await.unwrap().is_empty(), "nobody came in");
        let guard = locks.mutex("0 0").try_lock().await.unwrap().expect("it is free");
        guard.release().await.unwrap();
    });
}

#[test]
fn tickets_that_were_asked_to_join_twice_are_not_looked_for_in_their_line_when_they_are_out() {
    play(1, async |cluster| {
        let (holder, crowd) = (connect(&cluster).await, connect(&cluster).await);
        let member = &cluster.members()[0];
        crowd.mutex("warm").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        let guard = holder.mutex("k").ttl(LONG).lock().await.unwrap();
        member.freeze().unwrap();
        let mut waiting = JoinSet::new();
        for _ in 0..CALLERS {
            let mutex = crowd.mutex("k").ttl(LONG);
            waiting.spawn(async move { mutex.lock().await?.release().await });
        }
        // Their first attempts end without an answer.
        tokio::time::sleep(Duration::from_secs(5)).await;
        member.thaw().unwrap();
        until_line(&holder, "k", 1 + usize::try_from(CALLERS).unwrap()).await;
        guard.release().await.unwrap();
        for served in soon("all are served", waiting.join_all()).await {
            served.unwrap();
        }
        let before = member.requests("Range");
        tokio::time::sleep(Duration::from_secs(3)).await;
        let looks = member.requests("Range") - before;
        assert!(looks <= CALLERS / 10, "{looks} looks for {CALLERS} tickets that are out");
    });
}

/// More keys than one transaction may read or compare.
const HOLDERS: u32 = 150;

/// Returns `HOLDERS` holders, and another client's ticket of this ttl that waits behind them.
async fn behind_many(
    cluster: &Cluster,
    locks: &Locks,
    ttl: Duration,
) -> (Vec<Permit>, JoinHandle<Result<Permit>>) {
    let permits = locks.semaphore("s", HOLDERS);
    let all = try_join_all((0..HOLDERS).map(|_| permits.acquire())).await.unwrap();
    let waiting = connect(cluster).await.semaphore("s", HOLDERS).ttl(ttl);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    until_line(locks, "s", HOLDERS as usize + 1).await;
    (all, waiting)
}

#[test]
fn who_waits_behind_more_holders_than_one_transaction_may_ask_for_is_served() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        let (all, waiting) = behind_many(&cluster, &locks, TTL).await;
        // It gives several signs of life, and looks at all of them each time.
        tokio::time::sleep(TTL * 2).await;
        assert!(!waiting.is_finished(), "{:?}", waiting.await);
        join_all(all.into_iter().map(Permit::release)).await;
        soon("it is served", waiting).await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn who_waits_behind_more_holders_than_one_transaction_may_compare_can_be_broken() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        let (all, waiting) = behind_many(&cluster, &locks, LONG).await;
        let ticket = locks.line("s").await.unwrap().pop().unwrap();
        assert_eq!(locks.break_ticket("s", ticket.id).await.unwrap(), LeaveOutcome::Requested);
        let told = soon("it is told", waiting).await.unwrap().unwrap_err();
        assert_eq!(told.loss(), Some(Loss::Broken), "{told}");
        until_line(&locks, "s", HOLDERS as usize).await;
        assert!(all.iter().all(|guard| guard.check().is_ok()), "nobody else is concerned");
    });
}

#[test]
fn what_is_too_much_for_one_message_is_told_in_parts() {
    const EACH: usize = 1100;
    play(1, async |cluster| {
        let (locks, onlooker) = (connect(&cluster).await, connect(&cluster).await);
        let note = "n".repeat(4096);
        let mutex = |at| locks.mutex(format!("{at}")).ttl(LONG).note(note.clone());
        let readers = locks.rwlock("line").ttl(LONG).note(note.clone());
        let alone = try_join_all((0..EACH).map(|at| mutex(at).lock())).await.unwrap();
        let mut together = Vec::new();
        for _ in 0..EACH {
            together.push(readers.read().await.unwrap());
        }
        assert_eq!(onlooker.keys("").await.unwrap().len(), EACH + 1);
        assert_eq!(onlooker.line("line").await.unwrap().len(), EACH);

        let mut watch = onlooker.watch_prefix("").await.unwrap();
        for lease in leases(&cluster) {
            cluster.ctl(&["lease", "revoke", &lease]).unwrap();
        }
        for seen in 0..EACH * 2 {
            let told = soon("it is told", watch.next()).await.unwrap();
            let WatchEvent::Event(event) = told else { panic!("after {seen} of them: {told:?}") };
            assert_eq!(event.kind, EventKind::Expired);
        }
        let together = together.iter().map(ReadGuard::handle);
        for holder in alone.iter().map(MutexGuard::handle).chain(together) {
            soon("its holder is told", holder.lost()).await;
        }
    });
}

#[test]
fn callers_who_give_up_early_are_served_in_between_and_the_line_stays_short() {
    const CALLERS: usize = 48;
    const SERVED: usize = 40;
    play(1, async |cluster| {
        let (crowd, other) = (connect(&cluster).await, connect(&cluster).await);
        let (served, mut callers) = (Arc::new(AtomicUsize::new(0)), JoinSet::new());
        for _ in 0..CALLERS {
            let (mutex, served) = (crowd.mutex("k").ttl(LONG), served.clone());
            callers.spawn(async move {
                loop {
                    // Its future is dropped wherever it is.
                    let lock = timeout(Duration::from_millis(40), mutex.lock());
                    if let Ok(guard) = lock.await {
                        guard.unwrap().release().await.unwrap();
                        served.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        soon("some are served", async {
            while served.load(Ordering::SeqCst) < SERVED {
                let line = other.line("k").await.unwrap().len();
                assert!(line <= CALLERS * 2, "{line} tickets of {CALLERS} callers");
            }
        })
        .await;
        callers.shutdown().await;
        // The last ones of them are taken out ahead of it.
        let guard = soon("the line is passed on", other.mutex("k").ttl(LONG).lock()).await.unwrap();
        guard.release().await.unwrap();
    });
}

#[test]
fn readers_who_would_not_wait_cost_no_more_requests_than_those_who_would() {
    const ROUNDS: u64 = 5;
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        locks.mutex("warm").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        let before = requests(&cluster);
        let mut readers = JoinSet::new();
        for _ in 0..CALLERS {
            let lock = locks.rwlock("k").ttl(LONG);
            readers.spawn(async move {
                for _ in 0..ROUNDS {
                    let guard = lock.try_read().await.unwrap().expect("others only read");
                    guard.release().await.unwrap();
                }
            });
        }
        soon("all have read", readers.join_all()).await;
        let asked = requests(&cluster) - before;
        println!("{asked} requests for {} reads", CALLERS * ROUNDS);
        // A join, a release, and a try that takes the line for free.
        assert!(asked <= CALLERS * ROUNDS * 3, "{asked} requests");
    });
}
