//! A release that pushes all data to the next ticket, and its effect if that ticket has gone.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{BackgroundRuntime, Engine as _, Guard, Key, Locks, Runtime, WaitMode};
use tenure_core::{Result, Share, Ticket, TicketState, Wake};
use tenure_servers::Store as _;
use tenure_servers::etcd::{Cluster, Member};
use tokio::task::JoinHandle;

use super::between::Between;
use super::operators::keys;
use super::stage::{connect, play, soon, until_line};

/// A ttl of which no heartbeat falls into a test.
const LONG: Duration = Duration::from_secs(3600);
const TXN: &str = "Txn";

/// Returns the number of transactions, ranges and puts that a member has had.
fn requests(member: &Member) -> [u64; 3] {
    [TXN, "Range", "Put"].map(|method| member.requests(method))
}

/// Waits until a member gets no more requests.
async fn is_quiet(member: &Member) {
    soon("nothing more is asked", async {
        let asked = || (requests(member), member.requests("Watch"));
        let mut before = asked();
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = asked();
            if now == before {
                return;
            }
            before = now;
        }
    })
    .await;
}

/// Starts a waiter at this place of the line, and returns when it has sent all its requests.
async fn comes(cluster: &Cluster, locks: &Locks, place: usize) -> JoinHandle<Result<Guard>> {
    let mutex = locks.mutex("k").ttl(LONG);
    let waits = tokio::spawn(async move { mutex.lock().await });
    until_line(locks, "k", place).await;
    is_quiet(&cluster.members()[0]).await;
    waits
}

async fn is_served(waits: JoinHandle<Result<Guard>>) -> Guard {
    soon("it is served", waits).await.unwrap().unwrap()
}

#[test]
fn a_hand_over_between_clients_costs_one_request_where_few_wait() {
    play(1, async |cluster| {
        let (one, two) = (connect(&cluster).await, connect(&cluster).await);
        let mut guard = one.mutex("k").ttl(LONG).lock().await.unwrap();
        for turn in 0..4 {
            let next = if turn % 2 == 0 { &two } else { &one };
            let waits = comes(&cluster, next, 2).await;
            let (before, token) = (requests(&cluster.members()[0]), guard.token());
            guard.release().await.unwrap();
            guard = is_served(waits).await;
            let now = requests(&cluster.members()[0]);
            let [txn, range, put] = std::array::from_fn(|at| now[at] - before[at]);
            // The first holder never waited, so it does not know the next ticket, which then reads
            // the line itself.
            let looks = u64::from(turn == 0);
            assert_eq!([txn, range, put], [1, looks, 0], "turn {turn}");
            assert!(token < guard.token());
            guard.check().unwrap();
        }
        guard.release().await.unwrap();
    });
}

#[test]
fn a_release_whose_next_one_has_gone_meanwhile_is_a_release_all_the_same() {
    play(1, async |cluster| {
        let between = Between::of(&cluster).await;
        let mine = tenure_etcd::connect(format!("{}?timeout=60s", between.url())).await.unwrap();
        let other = connect(&cluster).await;
        let first = other.mutex("k").ttl(LONG).lock().await.unwrap();
        let waits = comes(&cluster, &mine, 2).await;
        first.release().await.unwrap();
        let guard = is_served(waits).await;
        let (next, last) = (comes(&cluster, &other, 2).await, comes(&cluster, &other, 3).await);
        between.hold_next(TXN);
        let releasing = tokio::spawn(guard.release());
        let late = soon("the release is sent", between.held()).await;
        cluster.ctl(&["del", &keys(&cluster)[1]]).unwrap();
        soon("the next one is told", next).await.unwrap().expect_err("it was taken out");
        let before = requests(&cluster.members()[0])[0];
        soon("the release arrives", late.let_go()).await;
        soon("it is answered", releasing).await.unwrap().unwrap();
        let last = is_served(last).await;
        assert_eq!(
            requests(&cluster.members()[0])[0] - before,
            2,
            "it was sent again, without the next one"
        );
        last.release().await.unwrap();
        assert!(keys(&cluster).is_empty());
    });
}

#[test]
fn two_who_wait_for_the_same_ticket_do_not_disturb_each_other() {
    play(1, async |cluster| {
        let (other, member) = (connect(&cluster).await, &cluster.members()[0]);
        let held = other.mutex("k").ttl(LONG).lock().await.unwrap();
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
        let engine = Arc::new(tenure_etcd::engine(&cluster.url(), host).await.unwrap());
        let ticket = Ticket { ttl: LONG, ..Ticket::new(Key::new("k").unwrap(), Share::WHOLE) };
        engine.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        let wait = || {
            let (engine, ticket) = (engine.clone(), ticket.clone());
            tokio::spawn(async move { engine.watch(&ticket, TicketState::Waiting).await })
        };
        let (one, two) = (wait(), wait());
        soon("both watch", async {
            while member.requests("Watch") == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        is_quiet(member).await;
        held.release().await.unwrap();
        for waits in [one, two] {
            let woken = soon("it is told", waits).await.unwrap().unwrap();
            assert!(matches!(woken, Wake::Served(_)), "{woken:?}");
        }
    });
}
