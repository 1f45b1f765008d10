//! A join that is delivered twice, by a proxy that resends an unanswered request.

use std::time::Duration;

use tenure_conformance::AnyGuard;
use tenure_core::{ErrorKind, LeaveOutcome, Locks, TicketId};
use tenure_servers::etcd::Cluster;
use tokio::time::sleep;

use super::between::Between;
use super::operators::keys;
use super::stage::{TTL, connect, play, soon, until_line};

const TXN: &str = "Txn";
const TIME_TO_LIVE: &str = "LeaseTimeToLive";

/// Returns a client behind a proxy, with an open session and a request timeout of 60 s.
async fn through(cluster: &Cluster) -> (Between, Locks) {
    let between = Between::of(cluster).await;
    let locks = tenure_etcd::connect(format!("{}?timeout=60s", between.url())).await.unwrap();
    locks.mutex("warm").ttl(TTL).lock().await.unwrap().release().await.unwrap();
    (between, locks)
}

/// Delivers a join a second time after its holder has left. Returns its ticket.
async fn leaves_a_ghost(between: &Between, locks: &Locks, other: &Locks) -> TicketId {
    between.deliver_next_twice(TXN);
    let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
    let (ghost, second) = (guard.id(), soon("the join is sent", between.held()).await);
    guard.release().await.unwrap();
    soon("it arrives again", second.let_go()).await;
    let line = other.line("k").await.unwrap();
    assert_eq!(line.iter().map(|ticket| ticket.id).collect::<Vec<_>>(), [ghost]);
    ghost
}

#[test]
fn a_ticket_that_came_in_again_after_it_had_left_is_told_to_leave_and_taken_out() {
    play(1, async |cluster| {
        let ((between, locks), other) = (through(&cluster).await, connect(&cluster).await);
        leaves_a_ghost(&between, &locks, &other).await;
        // Another copy of the process may hold it: it is asked first.
        let told = async || other.line("k").await.is_ok_and(|line| line[0].leaving);
        soon("it is told", async {
            while !told().await {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let next = soon("the next one is served", other.mutex("k").ttl(TTL).lock()).await.unwrap();
        next.release().await.unwrap();
        let warm = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        warm.release().await.unwrap();
        assert_eq!(keys(&cluster), [""; 0]);
    });
}

#[test]
fn a_ticket_that_came_in_again_after_it_had_left_is_taken_out_by_a_break() {
    play(1, async |cluster| {
        let ((between, locks), other) = (through(&cluster).await, connect(&cluster).await);
        let ghost = leaves_a_ghost(&between, &locks, &other).await;
        let left = other.break_ticket("k", ghost).await.unwrap();
        assert!(matches!(left, LeaveOutcome::Requested | LeaveOutcome::Absent), "{left:?}");
        until_line(&other, "k", 0).await;
        let free = locks.mutex("k").ttl(TTL).try_lock().await.unwrap().expect("it is free");
        free.release().await.unwrap();
    });
}

#[test]
fn a_join_whose_answer_is_late_is_not_taken_for_one_that_nobody_knows() {
    /// Number of times that the client reads its session's tickets meanwhile.
    const LOOKS: u64 = 3;
    play(1, async |cluster| {
        let ((between, locks), other) = (through(&cluster).await, connect(&cluster).await);
        between.hold_next_answer(TXN);
        let mutex = locks.mutex("k").ttl(TTL);
        let joining = tokio::spawn(async move { mutex.lock().await });
        let late = soon("the join is answered", between.held()).await;
        let before = between.streams(TIME_TO_LIVE);
        soon("its client looks at what it has", async {
            while between.streams(TIME_TO_LIVE) < before + LOOKS {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let line = other.line("k").await.unwrap();
        assert!(line.len() == 1 && !line[0].leaving, "{line:?}");
        soon("it hears", late.let_go()).await;
        let guard = soon("it holds", joining).await.unwrap().unwrap();
        guard.check().unwrap();
        guard.release().await.unwrap();
    });
}

/// Releases a lock. The second answer reports only that the ticket is absent, as if another client
/// had removed it.
async fn released(guard: impl Into<AnyGuard>) {
    let released = guard.into().release().await;
    assert_eq!(released.unwrap_err().kind(), ErrorKind::Lost);
}

#[test]
fn a_client_whose_requests_are_all_delivered_twice_takes_and_releases_its_locks() {
    play(1, async |cluster| {
        let (between, other) = (Between::of(&cluster).await, connect(&cluster).await);
        between.repeat();
        let locks = tenure_etcd::connect(between.url()).await.unwrap();
        for _ in 0..3 {
            let guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
            assert_eq!(other.line("a").await.unwrap().len(), 1);
            let waiting = tokio::spawn({
                let mutex = locks.mutex("a").ttl(TTL);
                async move { mutex.lock().await }
            });
            until_line(&other, "a", 2).await;
            released(guard).await;
            let next = soon("the next one is served", waiting).await.unwrap().unwrap();
            released(next).await;
            released(locks.semaphore("b", 3).ttl(TTL * 2).acquire().await.unwrap()).await;
        }
        locks.close().await;
        assert_eq!(keys(&cluster), [""; 0]);
    });
}
