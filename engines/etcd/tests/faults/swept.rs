//! Tickets that their own client removes, or that were refused, while one of their requests is
//! still on its way.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{
    BackgroundRuntime, Engine, ErrorKind, Key, LeaveMode, Locks, MutexGuard, Runtime, WaitMode,
};
use tenure_core::{Result, Share, Ticket, TicketState};
use tenure_servers::etcd::Cluster;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::between::{Between, Held};
use super::operators::keys;
use super::stage::{TTL, connect, play, soon, until_line};

const TXN: &str = "Txn";

/// Opens an engine with this request timeout.
async fn engine(between: &Between, timeout: &str) -> impl Engine {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    let url = format!("{}?timeout={timeout}", between.url());
    tenure_etcd::engine(&url, host).await.unwrap()
}

fn ticket(key: &str) -> Ticket {
    Ticket { ttl: TTL, ..Ticket::new(Key::new(key).unwrap(), Share::WHOLE) }
}

#[test]
fn no_renewal_saves_a_ticket_that_its_client_is_taking_out() {
    play(1, async |cluster| {
        let (between, other) = (Between::of(&cluster).await, connect(&cluster).await);
        let engine = engine(&between, "60s").await;
        let held = other.mutex("k").ttl(TTL * 10).lock().await.unwrap();
        let ticket = ticket("k");
        let joins = || engine.join(&ticket, WaitMode::Wait);
        let place = joins().await.unwrap().unwrap();
        assert_eq!(place.state, TicketState::Waiting);
        between.hold_next(TXN);
        // Its owner is silent.
        let late = soon("it is being taken out", between.held()).await;
        held.release().await.unwrap();
        assert_eq!(engine.renew(&ticket).await.unwrap(), None);
        let place = joins().await.unwrap().unwrap();
        assert_eq!(place.state, TicketState::Holding, "it may come in again");
        soon("the first request to take it out arrives", late.let_go()).await;
        assert!(other.mutex("k").ttl(TTL).try_lock().await.unwrap().is_none(), "two hold");
        let place = engine.renew(&ticket).await.unwrap().unwrap();
        assert!(place.life.is_some(), "its client knows it: {place:?}");
    });
}

/// A join has no answer, and its ticket is removed when it is overdue. Meanwhile the join is
/// repeated.
async fn is_asked_for_again(cluster: &Cluster, comes_in: bool) {
    let (between, other) = (Between::of(cluster).await, connect(cluster).await);
    let engine = engine(&between, "1500ms").await;
    let (warm, ticket) = (ticket("warm"), ticket("k"));
    engine.join(&warm, WaitMode::Wait).await.unwrap().expect("it waits");
    engine.leave(&warm, LeaveMode::Now).await.unwrap();
    between.hold_next(TXN);
    let unheard = timeout(TTL / 4, engine.join(&ticket, WaitMode::Wait)).await;
    assert!(unheard.is_err(), "{unheard:?}");
    let first = soon("the join is sent", between.held()).await;
    if comes_in {
        soon("it arrives", first.let_go()).await;
    }
    between.hold_next(TXN);
    let late = soon("it is being taken out", between.held()).await;
    let place = soon("it is let in", async {
        loop {
            match engine.join(&ticket, WaitMode::Wait).await {
                Err(error) if error.is_retryable() => sleep(TTL / 40).await,
                answer => return answer,
            }
        }
    })
    .await;
    assert_eq!(place.unwrap().unwrap().state, TicketState::Holding);
    soon("the first request to take it out arrives", late.let_go()).await;
    for _ in 0..8 {
        sleep(TTL / 8).await;
        assert!(other.mutex("k").ttl(TTL).try_lock().await.unwrap().is_none(), "two hold");
        let place = engine.renew(&ticket).await.unwrap().expect("it holds");
        assert!(place.life.is_some(), "its client knows it: {place:?}");
    }
}

#[test]
fn a_ticket_that_is_asked_for_again_while_it_is_kept_out_is_not_taken_out() {
    play(1, async |cluster| is_asked_for_again(&cluster, false).await);
}

#[test]
fn a_ticket_that_came_in_unheard_and_is_asked_for_again_while_it_is_taken_out_stays() {
    play(1, async |cluster| is_asked_for_again(&cluster, true).await);
}

/// Returns a client that repeats a request after half a second. Its first join of `k` is held back.
async fn joins_twice(cluster: &Cluster) -> (Locks, JoinHandle<Result<MutexGuard>>, Held) {
    let between = Between::of(cluster).await;
    let locks = tenure_etcd::connect(format!("{}?timeout=500ms", between.url())).await.unwrap();
    locks.mutex("warm").ttl(TTL).lock().await.unwrap().release().await.unwrap();
    between.hold_next(TXN);
    let mutex = locks.mutex("k").ttl(TTL);
    let joining = tokio::spawn(async move { mutex.lock().await });
    let late = soon("the join is sent", between.held()).await;
    (locks, joining, late)
}

/// The first request arrives after all clients have forgotten it. It puts no ticket into the line.
async fn arrives(locks: &Locks, other: &Locks, late: Held) {
    soon("nothing is left to do", locks.flush()).await;
    sleep(TTL * 2).await;
    soon("the first one arrives", late.let_go()).await;
    let line = other.line("k").await.unwrap();
    assert!(line.is_empty(), "{line:?}");
}

#[test]
fn a_join_that_arrives_after_its_holder_was_forced_out_lets_nobody_in() {
    play(1, async |cluster| {
        let other = connect(&cluster).await;
        let (locks, joining, late) = joins_twice(&cluster).await;
        let guard = soon("it is sent again", joining).await.unwrap().unwrap();
        other.force_unlock("k", guard.id()).await.unwrap();
        soon("it is told", guard.lost()).await;
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
        arrives(&locks, &other, late).await;
    });
}

#[test]
fn a_join_that_arrives_after_its_waiter_was_broken_lets_nobody_in() {
    play(1, async |cluster| {
        let other = connect(&cluster).await;
        let held = other.mutex("k").ttl(TTL * 10).lock().await.unwrap();
        let (locks, joining, late) = joins_twice(&cluster).await;
        until_line(&other, "k", 2).await;
        let waits = other.line("k").await.unwrap()[1].id;
        other.break_ticket("k", waits).await.unwrap();
        assert_eq!(soon("it is told", joining).await.unwrap().unwrap_err().kind(), ErrorKind::Lost);
        held.release().await.unwrap();
        arrives(&locks, &other, late).await;
    });
}

#[test]
fn who_is_refused_after_it_came_in_is_taken_out() {
    /// More tickets than the answer to a join has, so that the client reads the first ones with
    /// another request.
    const HELD: usize = 130;
    play(1, async |cluster| {
        let (between, other) = (Between::of(&cluster).await, connect(&cluster).await);
        let permits = other.semaphore("s", 1000).ttl(TTL * 30);
        let mut held = Vec::new();
        for _ in 0..HELD {
            held.push(permits.acquire().await.unwrap());
        }
        let locks = tenure_etcd::connect(between.url()).await.unwrap();
        locks.mutex("warm").ttl(TTL).lock().await.unwrap().release().await.unwrap();
        between.forbid("Range");
        let refused = locks.semaphore("s", 1000).ttl(TTL).acquire().await.map(drop);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Rejected);
        soon("it is taken out", async {
            while keys(&cluster).len() > HELD {
                sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    });
}
