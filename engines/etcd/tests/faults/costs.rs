//! The costs of locks for the server, which counts the requests itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use tenure_core::event::EventKind;
use tenure_core::{Locks, MutexGuard, Result, TicketState, WatchEvent};
use tenure_servers::etcd::{Cluster, ETCD_3_5, Member};
use tenure_servers::have;
use tokio::task::JoinSet;

use super::stage::{connect, play, play_on, soon, until_line};

/// A ttl of which no heartbeat falls into a test.
const LONG: Duration = Duration::from_secs(3600);

/// Returns the number of requests of each kind that a member has had: transactions, ranges, puts,
/// watches, keep-alives.
fn requests(member: &Member) -> [u64; 5] {
    ["Txn", "Range", "Put", "Watch", "LeaseKeepAlive"].map(|method| member.requests(method))
}

fn between(before: [u64; 5], after: [u64; 5]) -> [u64; 5] {
    std::array::from_fn(|at| after[at] - before[at])
}

#[test]
fn a_free_lock_costs_one_request_and_its_release_another() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        let member = &cluster.members()[0];
        locks.mutex("first").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        let before = requests(member);
        for _ in 0..100 {
            let guard = locks.mutex("k").ttl(LONG).lock().await.unwrap();
            guard.release().await.unwrap();
        }
        assert_eq!(between(before, requests(member)), [200, 0, 0, 0, 0]);
    });
}

#[test]
fn a_hand_over_between_clients_costs_a_release_and_a_read() {
    play(1, async |cluster| {
        let (one, two) = (connect(&cluster).await, connect(&cluster).await);
        let member = &cluster.members()[0];
        let mut guard = one.mutex("k").ttl(LONG).lock().await.unwrap();
        for turn in 0..4 {
            let next = if turn % 2 == 0 { &two } else { &one };
            let watched = requests(member)[3];
            let mutex = next.mutex("k").ttl(LONG);
            let waits = tokio::spawn(async move { mutex.lock().await });
            until_line(next, "k", 2).await;
            // It watches its own key and the holder's.
            soon("it watches", async {
                while requests(member)[3] < watched + 2 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
            .await;
            is_quiet(member).await;
            let (before, token) = (requests(member), guard.token());
            guard.release().await.unwrap();
            guard = soon("it is served", waits).await.unwrap().unwrap();
            let [txn, range, put, ..] = between(before, requests(member));
            println!("{range} reads in turn {turn}");
            assert_eq!([txn, put], [1, 0], "turn {turn}");
            // The first read follows the opening of the watches, and may be late on a busy machine.
            assert!((1..=2).contains(&range), "{range} reads in turn {turn}");
            assert!(token < guard.token());
        }
        guard.release().await.unwrap();
    });
}

/// Waits until a member gets no more requests.
async fn is_quiet(member: &Member) {
    soon("nothing more is asked", async {
        let mut before = requests(member);
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = requests(member);
            if now == before {
                return;
            }
            before = now;
        }
    })
    .await;
}

#[test]
fn a_thousand_waiters_are_served_in_order_at_a_constant_cost_though_half_of_them_go_away() {
    const WAITERS: usize = 1000;
    play(1, async |cluster| {
        let member = &cluster.members()[0];
        let (holder, crowd) = (connect(&cluster).await, connect(&cluster).await);
        let guard = holder.mutex("k").ttl(LONG).lock().await.unwrap();
        let (served, mut waiters) = (Arc::new(AtomicU64::new(0)), Vec::new());
        for at in 0..WAITERS {
            let (mutex, served) = (crowd.mutex("k").ttl(LONG), served.clone());
            waiters.push(tokio::spawn(async move {
                let guard = mutex.lock().await.unwrap();
                let before = served.swap(guard.token().get(), Ordering::SeqCst);
                assert!(before < guard.token().get(), "in order");
                guard.release().await.unwrap();
            }));
            if at % 50 == 0 {
                until_line(&holder, "k", waiters.len() + 1).await;
            }
        }
        until_line(&holder, "k", WAITERS + 1).await;
        for waiter in waiters.iter().step_by(2) {
            waiter.abort();
        }
        until_line(&holder, "k", WAITERS / 2 + 1).await;
        crowd.flush().await;
        let before = requests(member);
        guard.release().await.unwrap();
        for waiter in waiters.into_iter().skip(1).step_by(2) {
            soon("each is served", waiter).await.unwrap();
        }
        let [txn, range, put, watch, _] = between(before, requests(member));
        let (all, turns) = (txn + range + put, WAITERS as u64 / 2);
        println!("{all} requests and {watch} messages of watches for {turns} hand-overs");
        assert!(all <= turns * 4, "{all} requests for {turns} hand-overs");
        assert!(holder.line("k").await.unwrap().is_empty());
    });
}

/// Returns a held lock, and `count` waiters of another client. Each waiter is renewed every second.
async fn crowd(cluster: &Cluster, count: usize) -> (Locks, MutexGuard, JoinSet<Result<()>>) {
    let (holder, crowd) = (connect(cluster).await, connect(cluster).await);
    let guard = holder.mutex("k").ttl(LONG).lock().await.unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..count {
        let mutex = crowd.mutex("k").ttl(Duration::from_secs(3));
        waiters.spawn(async move { mutex.lock().await.map(drop) });
    }
    until_line(&holder, "k", count + 1).await;
    (holder, guard, waiters)
}

#[test]
fn a_waiter_that_gives_signs_of_life_opens_no_watch_anew() {
    const WAITERS: usize = 20;
    play(1, async |cluster| {
        let member = &cluster.members()[0];
        let (_holder, _guard, _waiters) = crowd(&cluster, WAITERS).await;
        // Each has given two signs of life.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = requests(member);
        tokio::time::sleep(Duration::from_secs(4)).await;
        let [txn, range, put, watch, _] = between(before, requests(member));
        println!("{txn} transactions, {range} ranges and {watch} messages of watches");
        assert_eq!((put, watch), (0, 0));
        let waiters = WAITERS as u64;
        assert!((waiters..=waiters * 8).contains(&(txn + range)), "each gives signs of life");
    });
}

#[test]
fn an_old_member_is_asked_in_no_transaction_that_only_reads() {
    // Such a member crashes if a client gives up a transaction that only reads before its answer.
    const WAITERS: usize = 64;
    if !have(&[ETCD_3_5]) {
        return;
    }
    play_on(
        || Cluster::of_3_5(1),
        async |cluster| {
            let member = &cluster.members()[0];
            let (holder, _guard, mut waiters) = crowd(&cluster, WAITERS).await;
            let before = requests(member);
            tokio::time::sleep(Duration::from_secs(4)).await;
            let [txn, range, ..] = between(before, requests(member));
            assert!(range >= WAITERS as u64, "each gives signs of life: {range}");
            assert_eq!(txn, 0);
            waiters.abort_all();
            assert_eq!(holder.line("k").await.unwrap()[0].state, TicketState::Holding);
        },
    );
}

#[test]
fn those_who_wait_behind_their_own_client_watch_nothing_where_hand_overs_are_quick() {
    play(1, async |cluster| {
        let member = &cluster.members()[0];
        let locks = connect(&cluster).await;
        let first = locks.mutex("k").ttl(LONG).lock().await.unwrap();
        let before = requests(member);
        let turns = (0..8).map(async |_| {
            for _ in 0..50 {
                locks.mutex("k").ttl(LONG).lock().await.unwrap().release().await.unwrap();
            }
        });
        let (_, released) = join(join_all(turns), first.release()).await;
        released.unwrap();
        let [txn, range, put, watch, _] = between(before, requests(member));
        println!("{txn} transactions, {range} ranges and {watch} messages of watches");
        assert!((801..=1000).contains(&txn), "{txn} transactions for 401 releases and 400 locks");
        // A waiter that waits for longer than a moment opens two watches, and reads. On a busy
        // machine some do.
        assert_eq!(put, 0);
        assert!(range + watch < 400, "fewer than a quarter watch: {range} {watch}");
    });
}

#[test]
fn a_sequence_that_many_count_at_once_costs_less_than_a_request_for_each_number() {
    const CALLERS: u64 = 256;
    const ROUNDS: u64 = 4;
    play(1, async |cluster| {
        let member = &cluster.members()[0];
        let locks = connect(&cluster).await;
        let before = requests(member);
        let counts = (0..CALLERS).map(async |_| {
            for _ in 0..ROUNDS {
                locks.sequence("k").next().await.unwrap();
            }
        });
        join_all(counts).await;
        let [txn, range, ..] = between(before, requests(member));
        println!("{txn} tries and {range} looks for {} numbers", CALLERS * ROUNDS);
        assert!(txn + range <= CALLERS, "{txn} tries and {range} looks");
        assert_eq!(locks.sequence("k").next().await.unwrap(), CALLERS * ROUNDS + 1);
    });
}

#[test]
fn an_idle_client_asks_nothing() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        locks.mutex("k").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        locks.flush().await;
        let before = requests(&cluster.members()[0]);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(between(before, requests(&cluster.members()[0])), [0; 5]);
    });
}

#[test]
fn one_stream_keeps_alive_whatever_is_held() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        let member = &cluster.members()[0];
        let mut held = Vec::new();
        for at in 0..50 {
            held.push(
                locks.mutex(format!("k{at}")).ttl(Duration::from_secs(3)).lock().await.unwrap(),
            );
        }
        let before = requests(member)[4];
        tokio::time::sleep(Duration::from_secs(4)).await;
        let beats = requests(member)[4] - before;
        assert!((2..=6).contains(&beats), "{beats} signs of life for 50 locks in 4 s");
        assert!(held.iter().all(|guard| guard.check().is_ok()));
    });
}

#[test]
fn whoever_comes_to_a_long_line_asks_once_where_it_stands() {
    const WAITERS: usize = 300;
    play(1, async |cluster| {
        let member = &cluster.members()[0];
        let (holder, crowd) = (connect(&cluster).await, connect(&cluster).await);
        let guard = holder.mutex("k").ttl(LONG).lock().await.unwrap();
        let mut watch = holder.watch_prefix("k").await.unwrap();
        let (before, mut waiters) = (requests(member), JoinSet::new());
        for _ in 0..WAITERS {
            let mutex = crowd.mutex("k").ttl(LONG);
            waiters.spawn(async move { mutex.lock().await?.release().await });
            let seen = soon("it comes in", watch.next()).await.unwrap();
            assert!(
                matches!(&seen, WatchEvent::Event(event) if event.kind == EventKind::Joined),
                "{seen:?}"
            );
        }
        guard.release().await.unwrap();
        while let Some(served) = soon("all are served", waiters.join_next()).await {
            served.unwrap().unwrap();
        }
        let [txn, range, put, watch, _] = between(before, requests(member));
        println!(
            "{txn} transactions, {range} ranges, {put} puts and {watch} messages of watches for {WAITERS} waiters"
        );
        // A waiter that waits for longer than a moment opens two watches and ends them, and reads
        // its own key and the one ahead. It reads no part of the line.
        assert!(range <= watch / 2 + 64, "{range} ranges for {WAITERS} waiters");
    });
}

#[test]
fn a_renewal_costs_one_request_however_many_hold_the_line() {
    const READERS: usize = 300;
    play(1, async |cluster| {
        let (locks, member) = (connect(&cluster).await, &cluster.members()[0]);
        let mut held = Vec::new();
        for _ in 0..READERS {
            held.push(locks.rwlock("k").ttl(LONG).read().await.unwrap());
        }
        let last = &held[READERS - 50..];
        // Each ticket's view of the line is an hour old by its own clock, so its first renewal
        // reads the line once.
        for guard in last {
            guard.extend().await.unwrap();
        }
        let before = requests(member);
        for guard in last {
            guard.extend().await.unwrap();
        }
        let [txn, range, ..] = between(before, requests(member));
        assert_eq!(txn + range, 50);
    });
}
