//! The server is killed, and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tenure_conformance::fault::stories::exclusion;
use tenure_servers::mariadb::{Server, Setup};

use super::stage::{LONG, at_last, connect, number, play, soon, until};

const TTL: Duration = Duration::from_secs(2);

async fn no_two_hold(server: &Server) {
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect(server.url()).await);
    }
    exclusion::no_two_hold(clients, TTL, async || {
        for _ in 0..4 {
            tokio::time::sleep(TTL / 2).await;
            server.kill().unwrap();
            server.restart().unwrap();
        }
    })
    .await;
}

#[test]
fn no_two_hold_while_the_server_is_killed() {
    play(async || no_two_hold(&Server::start().unwrap()).await);
}

#[test]
fn a_killed_server_has_everything_that_was_answered() {
    play(async || {
        let server = Setup::new().durable().start().unwrap();
        let locks = connect(server.url()).await;
        let mut token = 0;
        for _ in 0..4 {
            let (told, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
            let load = tokio::spawn({
                let (locks, told, is_over) = (locks.clone(), told.clone(), is_over.clone());
                async move {
                    while !is_over.load(Ordering::Relaxed) {
                        if let Ok(next) = locks.sequence("s").next().await {
                            told.fetch_max(next, Ordering::Relaxed);
                        }
                    }
                }
            });
            until("numbers are given", async || told.load(Ordering::Relaxed) > 0).await;
            let mutex = locks.mutex("a").ttl(LONG);
            let guard = at_last("it is locked", async || mutex.lock().await).await;
            assert!(guard.token().get() > token);
            token = guard.token().get();
            let count = locks.counter("c").window(LONG);
            let counted = at_last("it counts", async || count.add(1).await).await.value;
            at_last("the lease is longer", async || guard.extend().await).await;
            let at = number(&server, "SELECT at_us FROM locks.tenure_line");
            server.kill().unwrap();
            is_over.store(true, Ordering::Relaxed);
            server.restart().unwrap();
            soon("the load ends", load).await.unwrap();
            assert!(
                number(&server, "SELECT at_us FROM locks.tenure_line") >= at,
                "a renewal is lost"
            );
            at_last("it is still held", async || guard.extend().await).await;
            let next = at_last("a number", async || locks.sequence("s").next().await).await;
            assert!(next > told.load(Ordering::Relaxed), "a number was given twice");
            let now = at_last("it counts", async || count.add(1).await).await.value;
            assert!(now > counted, "{now} came after {counted}");
            guard.release().await.unwrap();
        }
    });
}
