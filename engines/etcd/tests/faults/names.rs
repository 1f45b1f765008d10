//! Keys are used again: a request for the last ticket with a key must not touch the
//! next one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use prost::Message as _;
use tenure_core::event::EventKind;
use tenure_core::{LeaveOutcome, Locks, Loss, MutexGuard, Result, WatchEvent};
use tenure_servers::etcd::Cluster;
use tokio::task::JoinHandle;

use super::between::Between;
use super::lies::Watched;
use super::operators::{keys, leases};
use super::stage::{TTL, connect, play, soon, until_line};

const TXN: &str = "Txn";
/// A ttl of which no renewal is due in a test, so that no ticket looks by itself.
const LONG: Duration = Duration::from_secs(3600);
/// A timeout after which a held-back request is given up and sent again.
const QUICK: &str = "500ms";
/// A timeout that is longer than a request is held back.
const PATIENT: &str = "60s";

/// Returns a client with this request timeout, and the proxy that can hold its requests back.
async fn through(cluster: &Cluster, timeout: &str) -> (Between, Locks) {
    let between = Between::of(cluster).await;
    let url = format!("{}?timeout={timeout}", between.url());
    let locks = tenure_etcd::connect(url).await.unwrap();
    // Opens the session, so that the next request is the one that a test holds back.
    locks.mutex("warm").ttl(TTL * 10).lock().await.unwrap().release().await.unwrap();
    (between, locks)
}

#[test]
fn a_release_that_arrives_late_does_not_touch_the_next_ticket_with_its_key() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster, QUICK).await;
        let mutex = locks.mutex("k").ttl(TTL * 10);
        let guard = mutex.lock().await.unwrap();
        let key = keys(&cluster);
        between.hold_next(TXN);
        let releasing = tokio::spawn(guard.release());
        let late = soon("the release is sent", between.held()).await;
        soon("it is sent again", releasing).await.unwrap().expect("that is answered");
        let next = mutex.lock().await.unwrap();
        assert_eq!(keys(&cluster), key, "the name is used again");
        soon("the first one arrives", late.let_go()).await;
        assert_eq!(keys(&cluster), key);
        next.check().unwrap();
        next.release().await.unwrap();
    });
}

/// Returns the fences: the keys that keep out given-up requests.
fn fences(cluster: &Cluster) -> Vec<String> {
    let keys = cluster.ctl(&["get", "--prefix", "--keys-only", "tenure/v1/f/"]).unwrap();
    keys.lines().filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

#[test]
fn what_is_never_to_come_in_is_kept_out_for_as_long_as_its_session() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster, QUICK).await;
        let all = || cluster.ctl(&["lease", "list"]).unwrap().lines().count();
        let before = all();
        between.hold_next(TXN);
        let joining = tokio::spawn({
            let mutex = locks.mutex("k").ttl(TTL * 10);
            async move { mutex.lock().await }
        });
        let _never = soon("the join is sent", between.held()).await;
        let guard = soon("it is sent again", joining).await.unwrap().unwrap();
        guard.release().await.unwrap();
        assert_eq!(all(), before, "no other lease says how long");
        assert_eq!(fences(&cluster).len(), 1, "it is kept out");
        // The next ticket that comes in is another one.
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn a_join_that_arrives_after_its_ticket_was_told_to_stay_out_lets_nobody_in() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster, QUICK).await;
        let other = connect(&cluster).await;
        let busy = locks.mutex("busy").ttl(TTL * 10);
        let mixed = locks.mutex("mixed").ttl(TTL * 10);
        let held = other.mutex("busy").ttl(TTL * 10).lock().await.unwrap();
        let permit = other.semaphore("mixed", 5).ttl(TTL * 10).acquire().await.unwrap();

        between.hold_next(TXN);
        let trying =
            tokio::spawn(async move { busy.try_lock().await.map(|guard| guard.is_some()) });
        let late = soon("the join is sent", between.held()).await;
        assert!(!soon("it is sent again", trying).await.unwrap().unwrap(), "it is busy");
        held.release().await.unwrap();
        soon("the first one arrives", late.let_go()).await;

        between.hold_next(TXN);
        let locking = tokio::spawn(async move { mixed.lock().await.map(drop) });
        let late = soon("the join is sent", between.held()).await;
        let refused = soon("it is sent again", locking).await.unwrap().unwrap_err();
        assert!(refused.to_string().contains("in use as a semaphore of 5"), "{refused}");
        permit.release().await.unwrap();
        soon("the first one arrives", late.let_go()).await;

        assert!(keys(&cluster).is_empty(), "{:?}", keys(&cluster));
    });
}

#[test]
fn a_join_that_arrives_after_its_ticket_has_left_lets_nobody_in() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster, QUICK).await;
        let mutex = locks.mutex("k").ttl(TTL * 10);
        between.hold_next(TXN);
        let joining = tokio::spawn({
            let mutex = mutex.clone();
            async move { mutex.lock().await }
        });
        let late = soon("the join is sent", between.held()).await;
        let guard = soon("it is sent again", joining).await.unwrap().expect("that is answered");
        guard.release().await.unwrap();
        soon("the first one arrives", late.let_go()).await;
        assert_eq!(keys(&cluster), [""; 0]);
        mutex.try_lock().await.unwrap().expect("it is free").release().await.unwrap();
    });
}

#[test]
fn a_join_that_was_given_up_and_arrives_late_lets_nobody_in() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster, QUICK).await;
        let mutex = locks.mutex("k").ttl(TTL * 10);
        between.hold_next(TXN);
        let joining = tokio::spawn({
            let mutex = mutex.clone();
            async move { mutex.lock().await.map(drop) }
        });
        let late = soon("the join is sent", between.held()).await;
        joining.abort();
        joining.await.expect_err("it was given up");
        locks.flush().await;
        let next = mutex.lock().await.unwrap();
        soon("the first one arrives", late.let_go()).await;
        assert_eq!(keys(&cluster).len(), 1);
        next.check().unwrap();
        next.release().await.unwrap();
    });
}

#[test]
fn a_join_whose_fence_was_raised_for_another_ticket_comes_in_by_itself() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster, PATIENT).await;
        between.hold_next(TXN);
        let joining = tokio::spawn({
            let mutex = locks.mutex("k").ttl(TTL * 10);
            async move { mutex.lock().await }
        });
        let late = soon("the join is sent", between.held()).await;
        // The session's fences, whichever the ticket's is.
        let lease = leases(&cluster).remove(0);
        for nth in 0..=u8::MAX {
            let fence = format!("tenure/v1/f/{lease:0>16}/{nth:02x}");
            cluster.ctl(&["put", "--lease", &lease, &fence, ""]).unwrap();
        }
        soon("it arrives", late.let_go()).await;
        let guard = soon("it is sent again", joining).await.unwrap().unwrap();
        guard.check().unwrap();
        guard.release().await.unwrap();
        // An operator deletes them.
        cluster.ctl(&["del", "--prefix", "tenure/v1/f/"]).unwrap();
        let all = (0..40).map(|at| locks.mutex(format!("k{at}")).ttl(TTL * 10));
        let turns = all.map(async |mutex| mutex.lock().await.unwrap().release().await.unwrap());
        soon("all come in", join_all(turns)).await;
    });
}

#[test]
fn thousands_of_calls_that_are_given_up_leave_few_keys_and_keep_nobody_out() {
    const CALLERS: usize = 40;
    const CALLS: u64 = 50;
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        locks.mutex("k").lock().await.unwrap().release().await.unwrap();
        let impatient = (0..CALLERS).map(|at| {
            let mutex = locks.mutex(format!("k{}", at % 4));
            tokio::spawn(async move {
                for call in 0..CALLS {
                    let patience = Duration::from_micros(call * 37 % 900);
                    let given_up = tokio::time::timeout(patience, mutex.lock()).await;
                    drop(given_up.map(|locked| locked.map(drop)));
                }
            })
        });
        let patient = (0..CALLERS).map(|at| {
            let mutex = locks.mutex(format!("own {at}"));
            tokio::spawn(async move {
                for _ in 0..CALLS / 2 {
                    mutex.lock().await.unwrap().release().await.unwrap();
                }
            })
        });
        let all: Vec<_> = impatient.chain(patient).collect();
        for turns in join_all(all).await {
            turns.expect("all come in who wait");
        }
        soon("nothing is left to do", locks.flush()).await;
        assert_eq!(keys(&cluster), [""; 0]);
        let left = fences(&cluster).len();
        assert!((1..=256).contains(&left), "{left}");
    });
}

/// Waits until the waiter has subscribed to its watches.
async fn watches(between: &Between) {
    let is_asked = async {
        while between.streams("Watch") == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("it watches", is_asked).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
}

/// A waiter leaves while a break of it is on its way, and another ticket takes its key. With
/// `breaks_holder` it is a holder.
async fn break_arrives_late(cluster: &Cluster, breaks_holder: bool) {
    let (between, breaker) = through(cluster, PATIENT).await;
    let (locks, holder) = (connect(cluster).await, connect(cluster).await);
    let first = if breaks_holder { None } else { Some(holder.mutex("k").lock().await.unwrap()) };
    let behind = waits(&locks, first.iter().len()).await;
    let ticket = locks.line("k").await.unwrap().pop().expect("it is there").id;
    between.hold_next(TXN);
    let breaking = tokio::spawn(async move { breaker.break_ticket("k", ticket).await });
    let late = soon("the break is sent", between.held()).await;
    let before = keys(cluster);
    behind.abort();
    drop(behind.await);
    until_line(&holder, "k", first.iter().len()).await;
    // The waiter's own client has seen the removal as well.
    locks.flush().await;
    let next = waits(&locks, first.iter().len()).await;
    assert_eq!(keys(cluster), before, "the name is used again");
    soon("the break arrives", late.let_go()).await;
    let broken = soon("it is answered", breaking).await.unwrap();
    assert!(broken.is_ok_and(|left| left == LeaveOutcome::Absent), "the ticket has left");
    drop(first);
    let guard = soon("the next one is served", next).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    guard.check().expect("nobody told it to leave");
    let token = guard.token();
    guard.extend().await.expect("it is there");
    assert_eq!(guard.token(), token);
}

/// Starts a waiter behind `ahead` tickets, and returns when it is in the line.
async fn waits(locks: &Locks, ahead: usize) -> JoinHandle<Result<MutexGuard>> {
    let mutex = locks.mutex("k").ttl(LONG);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    until_line(locks, "k", ahead + 1).await;
    waiting
}

#[test]
fn a_break_that_arrives_late_does_not_touch_the_next_waiter_with_that_key() {
    play(1, async |cluster| break_arrives_late(&cluster, false).await);
}

#[test]
fn a_break_that_arrives_late_does_not_touch_the_next_holder_with_that_key() {
    play(1, async |cluster| break_arrives_late(&cluster, true).await);
}

#[test]
fn a_waiter_is_served_though_another_took_its_predecessors_key_in_the_same_message() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster, PATIENT).await;
        let holder = connect(&cluster).await;
        let guard = holder.mutex("k").ttl(LONG).lock().await.unwrap();
        let key = keys(&cluster);
        let waiting = waits(&locks, 1).await;
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keeping = kept.clone();
        // The watch reports the events of a key only when it has two, in one message.
        between.lie("Watch", move |_, said| {
            let mut told = Watched::decode(said).unwrap();
            let mut kept = keeping.lock().unwrap();
            kept.append(&mut told.events);
            if !told.created && kept.len() < 2 {
                return Vec::new();
            }
            told.events.append(&mut kept);
            vec![told.encode_to_vec()]
        });
        watches(&between).await;
        guard.release().await.unwrap();
        let again = waits(&holder, 1).await;
        assert_eq!(keys(&cluster)[1], key[0], "the name is used again");
        let next = soon("the waiter is served", waiting).await.unwrap().unwrap();
        assert_eq!(kept.lock().unwrap().len(), 0, "it was told of both at once");
        next.release().await.unwrap();
        soon("the last one is served", again).await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn a_holder_is_told_though_something_else_has_its_key_already() {
    play(1, async |cluster| {
        let (_between, locks) = through(&cluster, PATIENT).await;
        let other = connect(&cluster).await;
        let guard = locks.mutex("k").lock().await.unwrap();
        let _behind = waits(&other, 1).await;
        let [own, next] = &keys(&cluster)[..] else { panic!("there are two") };
        // The key of the ticket behind is copied to the key, so that it looks like a ticket.
        let value = cluster.ctl(&["get", "--print-value-only", next]).unwrap();
        cluster.ctl(&["del", own]).unwrap();
        cluster.ctl(&["put", own, value.trim()]).unwrap();
        assert_eq!(soon("the holder is told", guard.lost()).await, Loss::Broken);
    });
}

#[test]
fn a_release_serves_whoever_is_next_though_the_one_behind_was_deleted_unheard() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster, PATIENT).await;
        between.lie("Watch", |_, _| Vec::new());
        let guard = locks.mutex("k").lock().await.unwrap();
        let (deleted, next) = (waits(&locks, 1).await, waits(&locks, 2).await);
        watches(&between).await;
        cluster.ctl(&["del", &keys(&cluster)[1]]).unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        let next = soon("the next one is served", next).await.unwrap().unwrap();
        assert!(next.token() > token);
        assert_eq!(locks.line("k").await.unwrap().len(), 1);
        deleted.abort();
    });
}

#[test]
fn a_ticket_whose_key_another_ticket_has_gets_another_key() {
    play(1, async |cluster| {
        let (locks, other) = (connect(&cluster).await, connect(&cluster).await);
        let own = locks.mutex("own").ttl(LONG).lock().await.unwrap();
        let lease = keys(&cluster)[0].rsplit('/').nth(1).unwrap().to_owned();
        own.release().await.unwrap();
        let guard = other.mutex("k").ttl(LONG).lock().await.unwrap();
        // The holder's ticket is copied to the first key of the client that waits, as if a copy of
        // its process had put a ticket there.
        let held = keys(&cluster).remove(0);
        let value = cluster.ctl(&["get", "--print-value-only", &held]).unwrap();
        let line = held.rsplitn(3, '/').last().unwrap().to_owned();
        let taken: String = format!("{line}/{lease}/0");
        cluster.ctl(&["put", &taken, value.trim()]).unwrap();
        let waiting = waits(&locks, 2).await;
        assert_eq!(keys(&cluster), [held, taken.clone(), format!("{line}/{lease}/1")]);
        guard.release().await.unwrap();
        cluster.ctl(&["del", &taken]).unwrap();
        let next = soon("the waiter is served", waiting).await.unwrap().unwrap();
        next.release().await.unwrap();
        assert_eq!(keys(&cluster), [""; 0]);
    });
}

#[test]
fn a_client_has_few_keys_in_a_line_however_many_locks_it_had() {
    const LOCKS: usize = 20;
    const WAITERS: usize = 5;
    play(1, async |cluster| {
        let (locks, mut names) = (connect(&cluster).await, HashSet::new());
        for _ in 0..LOCKS {
            let guard = locks.mutex("k").ttl(LONG).lock().await.unwrap();
            names.extend(keys(&cluster));
            guard.release().await.unwrap();
        }
        assert_eq!(names.len(), 1, "{names:?}");
        for _ in 0..LOCKS {
            let guard = locks.mutex("k").ttl(LONG).lock().await.unwrap();
            let mut waiting = Vec::new();
            for ahead in 1..=WAITERS {
                waiting.push(waits(&locks, ahead).await);
            }
            names.extend(keys(&cluster));
            guard.release().await.unwrap();
            for waits in waiting {
                let next = soon("each is served", waits).await.unwrap().unwrap();
                next.release().await.unwrap();
            }
        }
        assert_eq!(names.len(), WAITERS + 1, "{names:?}");
    });
}

#[test]
fn an_onlooker_that_cannot_be_told_who_left_is_told_that_it_missed_something() {
    play(1, async |cluster| {
        let (between, locks) = through(&cluster, PATIENT).await;
        let other = connect(&cluster).await;
        let mut watch = locks.watch_prefix("").await.unwrap();
        let guard = other.mutex("k").lock().await.unwrap();
        for what in [EventKind::Joined, EventKind::Served] {
            let told = soon("it is told", watch.next()).await.unwrap();
            assert!(matches!(told, WatchEvent::Event(event) if event.kind == what));
        }
        // The decoded message lacks the earlier value of a key.
        between.lie("Watch", |_, said| vec![Watched::decode(said).unwrap().encode_to_vec()]);
        guard.release().await.unwrap();
        assert_eq!(soon("it is told", watch.next()).await.unwrap(), WatchEvent::Gap);
    });
}
