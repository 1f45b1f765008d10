//! A release that pushes all data to the next ticket, and when the ticket ignores it.

use std::time::Duration;

use tenure_core::{Locks, Loss, MutexGuard, Result};
use tenure_servers::zookeeper::{Ensemble, Server};
use tokio::task::JoinHandle;

use super::network::{proxy_to, url_of};
use super::stage::{
    LINES, TTL, at_last, connect, operator, play, received, soon, tickets, until_line,
};

/// The longest that these servers grant: few signs of life fall into a story.
const LONG: Duration = Duration::from_secs(40);

/// Starts a waiter at this place of the line, and returns when it has sent all its requests.
async fn comes(ensemble: &Ensemble, locks: &Locks, place: usize) -> JoinHandle<Result<MutexGuard>> {
    let mutex = locks.mutex("k").ttl(LONG);
    let waits = tokio::spawn(async move { mutex.lock().await });
    until_line(locks, "k", place).await;
    watches(&ensemble.servers()[0], place).await;
    waits
}

/// Waits until a server has `count` watches on tickets.
async fn watches(server: &Server, count: usize) {
    soon("there are so many watches", async {
        loop {
            let said = server.ask("wchp").expect("it answers");
            if said.lines().filter(|line| line.starts_with(LINES)).count() == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

async fn is_served(waits: JoinHandle<Result<MutexGuard>>) -> MutexGuard {
    soon("it is served", waits).await.unwrap().unwrap()
}

#[test]
fn a_hand_over_between_clients_costs_one_request() {
    play(1, async |ensemble| {
        let (one, two) = (connect(&ensemble).await, connect(&ensemble).await);
        let server = &ensemble.servers()[0];
        let mut guard = one.mutex("k").ttl(LONG).lock().await.unwrap();
        let mut costs = Vec::new();
        for turn in 0..6 {
            let next = if turn % 2 == 0 { &two } else { &one };
            let waits = comes(&ensemble, next, 2).await;
            let (before, token) = (received(server), guard.token());
            guard.release().await.unwrap();
            guard = is_served(waits).await;
            // The question itself is a packet.
            costs.push(received(server) - before - 1);
            assert!(token < guard.token());
            guard.check().unwrap();
        }
        guard.release().await.unwrap();
        costs.sort_unstable();
        // A ping or a sign of life may fall into one or the other.
        assert_eq!(costs[costs.len() / 2], 1, "{costs:?}");
    });
}

#[test]
fn a_waiter_whose_own_node_went_first_does_not_hold() {
    play(1, async |ensemble| {
        let (one, two) = (connect(&ensemble).await, connect(&ensemble).await);
        let operator = operator(&ensemble).await;
        for _ in 0..20 {
            let guard = one.mutex("k").ttl(LONG).lock().await.unwrap();
            let waits = comes(&ensemble, &two, 2).await;
            let both = tickets(&operator).await;
            let mut writer = operator.new_multi_writer();
            for path in both.iter().rev() {
                writer.add_delete(path, None).unwrap();
            }
            writer.commit().await.unwrap();
            let told = soon("the waiter is told", waits).await.unwrap();
            assert_eq!(told.map(drop).unwrap_err().loss(), Some(Loss::Broken));
            soon("the holder is told", guard.lost()).await;
        }
    });
}

#[test]
fn what_is_told_on_another_connection_is_not_believed() {
    play(1, async |ensemble| {
        let other = connect(&ensemble).await;
        let proxy = proxy_to(&ensemble);
        let url = format!("{}?timeout=500ms", url_of(&proxy));
        let mine = at_last("it connects", async || tenure_zookeeper::connect(&url).await).await;
        let operator = operator(&ensemble).await;
        for _ in 0..10 {
            let guard = other.mutex("k").ttl(LONG).lock().await.unwrap();
            let mutex = mine.mutex("k").ttl(LONG);
            let waits = tokio::spawn(async move { mutex.lock().await });
            until_line(&other, "k", 2).await;
            watches(&ensemble.servers()[0], 2).await;
            proxy.black_hole();
            // The waiter's own node was removed first. The server reports both removals in any
            // order if the client sets both watches at once.
            operator.delete(&tickets(&operator).await[1], None).await.unwrap();
            guard.release().await.unwrap();
            proxy.cut();
            proxy.heal();
            let told = soon("the waiter is told", waits).await.unwrap();
            let error = told.map(drop).expect_err("its node was gone before it was served");
            assert_eq!(error.loss(), Some(Loss::Broken), "{error}");
        }
    });
}

#[test]
fn a_waiter_behind_one_who_gives_up_is_not_served_by_that() {
    play(1, async |ensemble| {
        let [one, two, three] =
            [connect(&ensemble).await, connect(&ensemble).await, connect(&ensemble).await];
        let guard = one.mutex("k").ttl(TTL * 5).lock().await.unwrap();
        let second = comes(&ensemble, &two, 2).await;
        let third = comes(&ensemble, &three, 3).await;
        second.abort();
        until_line(&one, "k", 2).await;
        guard.check().unwrap();
        watches(&ensemble.servers()[0], 2).await;
        assert!(!third.is_finished(), "the first one holds");
        let token = guard.token();
        guard.release().await.unwrap();
        assert!(is_served(third).await.token() > token);
    });
}
