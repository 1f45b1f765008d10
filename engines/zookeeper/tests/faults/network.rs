//! Connections are cut, and answers are lost.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tenure_conformance::fault::Proxy;
use tenure_conformance::fault::stories::network::{self, CutOff};
use tenure_core::Locks;
use tenure_servers::zookeeper::Ensemble;

use super::stage::{LINES, TTL, at_last, connect, operator, play, soon, tickets, until_line};

/// Returns a proxy between the clients and the first server.
pub(super) fn proxy_to(ensemble: &Ensemble) -> Proxy {
    let server = ensemble.servers()[0].port();
    Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, server))).unwrap()
}

pub(super) fn url_of(proxy: &Proxy) -> String {
    format!("zookeeper://127.0.0.1:{}", proxy.port())
}

async fn through(ensemble: &Ensemble) -> (Proxy, Locks) {
    let proxy = proxy_to(ensemble);
    let url = format!("{}?timeout=500ms", url_of(&proxy));
    let locks = at_last("it connects", async || tenure_zookeeper::connect(&url).await).await;
    (proxy, locks)
}

/// Returns a client that can be cut off, and one that cannot.
async fn divided(ensemble: &Ensemble) -> CutOff {
    let (proxy, locks) = through(ensemble).await;
    CutOff { proxy, locks, other: connect(ensemble).await, ttl: TTL }
}

fn cut_off(story: impl AsyncFnOnce(CutOff)) {
    play(1, async |ensemble| story(divided(&ensemble).await).await);
}

tenure_conformance::network_stories!(cut_off);

#[test]
fn a_join_whose_answer_is_lost_leaves_no_node_behind() {
    play(1, async |ensemble| {
        network::a_join_whose_answer_is_lost_holds_once_and_leaves_nothing_behind(
            divided(&ensemble).await,
        )
        .await;
        let operator = operator(&ensemble).await;
        assert_eq!(tickets(&operator).await, Vec::<String>::new());
    });
}

#[test]
fn a_waiter_whose_connection_is_cut_hears_of_its_turn_all_the_same() {
    play(1, async |ensemble| {
        let (proxy, locks) = through(&ensemble).await;
        let other = connect(&ensemble).await;
        let guard = other.mutex("k").lock().await.unwrap();
        let waiter = locks.mutex("k").ttl(TTL * 5);
        let waiting = tokio::spawn(async move { waiter.lock().await });
        until_line(&other, "k", 2).await;
        // The watch is set, and its notification is lost with the connection.
        tokio::time::sleep(Duration::from_millis(300)).await;
        proxy.black_hole();
        guard.release().await.unwrap();
        proxy.cut();
        proxy.heal();
        soon("it is served", waiting).await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn a_downgrade_whose_answer_is_lost_leaves_nothing_behind() {
    play(1, async |ensemble| {
        let (proxy, locks) = through(&ensemble).await;
        let operator = operator(&ensemble).await;
        let guard = locks.rwlock("k").ttl(TTL * 5).write().await.unwrap();
        let line = operator.list_children(LINES).await.unwrap().remove(0);
        let line = format!("{LINES}/{line}");
        // Answers are delayed, so that the connection is cut before this one arrives.
        proxy.delay(Duration::from_millis(150));
        let downgrading = tokio::spawn(guard.downgrade());
        soon("it takes less", async {
            while operator.list_children(&line).await.unwrap().len() < 2 {}
        })
        .await;
        proxy.cut();
        // Dropping the downgrade releases the lock.
        downgrading.abort();
        proxy.heal();
        until_line(&locks, "k", 0).await;
        locks.flush().await;
        assert_eq!(operator.list_children(&line).await.unwrap(), Vec::<String>::new());
    });
}
