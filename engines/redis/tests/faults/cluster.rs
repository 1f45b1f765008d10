//! A cluster is being changed: slots move while locks are held, and nodes die.

use std::time::Duration;

use tenure_core::{Guard, Kind, Locks, Result};
use tenure_servers::redis::{Cluster, Server};
use tokio::task::JoinHandle;

use super::stage::{LONG, connect, head, play, soon, until, until_line};

fn waiting(locks: &Locks, key: &str) -> JoinHandle<Result<Guard>> {
    let mutex = locks.mutex(key).ttl(LONG);
    tokio::spawn(async move {
        mutex.lock().await.inspect_err(|error| println!("a waiter was told: {error}"))
    })
}

fn another<'a>(cluster: &'a Cluster, than: &Server) -> &'a Server {
    cluster.nodes().iter().find(|it| it.port() != than.port()).unwrap()
}

#[test]
fn locks_are_kept_and_handed_over_while_their_slot_moves() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let slot = cluster.slot_of(&head("a")).unwrap();
        let to = another(&cluster, cluster.owner_of(slot).unwrap());
        let mut guard = Some(locks.mutex("a").ttl(LONG).lock().await.unwrap());
        let mut step = async |what: &str| {
            let held = guard.take().unwrap();
            held.extend().await.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(other.mutex("a").try_lock().await.unwrap().is_none(), "{what}");
            let mut newest = held.token();
            let waiter = waiting(&other, "a");
            until_line(&locks, "a", 2).await;
            let back = waiting(&locks, "a");
            until_line(&locks, "a", 3).await;
            held.release().await.unwrap();
            for waiter in [waiter, back] {
                let served = soon(what, waiter).await.unwrap().unwrap();
                assert!(served.token() > newest, "{what}");
                newest = served.token();
                // The last one keeps it for the next step.
                guard.replace(served);
            }
        };
        step("before it moves").await;
        let relocation = cluster.relocate(slot, to).unwrap();
        step("when it begins to move").await;
        relocation.carry().unwrap();
        step("when the line has moved").await;
        relocation.finish().unwrap();
        step("when the slot has moved").await;
        assert_eq!(locks.line("a").await.unwrap().len(), 1);
    });
}

#[test]
fn who_waits_while_a_slot_moves_is_served_on_the_other_side() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let slot = cluster.slot_of(&head("a")).unwrap();
        let to = another(&cluster, cluster.owner_of(slot).unwrap());
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let waiter = waiting(&other, "a");
        until_line(&locks, "a", 2).await;
        let relocation = cluster.relocate(slot, to).unwrap();
        let late = waiting(&other, "a");
        until_line(&locks, "a", 3).await;
        relocation.finish().unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        // Its heartbeat is hours away: the push finds it where the slot is now.
        let second = soon("the waiter is served", waiter).await.unwrap().unwrap();
        assert!(second.token() > token);
        second.release().await.unwrap();
        soon("the late one is served", late).await.unwrap().unwrap().release().await.unwrap();
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}

#[test]
fn a_node_that_dies_leaves_its_locks_to_its_replica() {
    play(async || {
        let cluster = Cluster::with_replicas(1).unwrap();
        let url = format!("{}?acks=1&timeout=1s&connect_timeout=500ms", cluster.url());
        let plain = format!("{}?timeout=1s&connect_timeout=500ms", cluster.url());
        let (locks, other) = (connect(&url).await, connect(&plain).await);
        let ttl = Duration::from_secs(60);
        let guard = locks.mutex("a").ttl(ttl).lock().await.unwrap();
        let slot = cluster.slot_of(&head("a")).unwrap();
        let owner = cluster.owner_of(slot).unwrap();
        owner.kill().unwrap();
        cluster.next_owner(slot, owner).unwrap();
        until("the line is there again", async || {
            other.line("a").await.is_ok_and(|line| line.len() == 1 && line[0].0.id == guard.id())
        })
        .await;
        guard.check().unwrap();
        let asked = other.mutex("a").try_lock().await;
        assert!(asked.unwrap().is_none());
        let token = guard.token();
        until("it is released", async || {
            match other.force_out("a", guard.id()).await {
                Ok(_) => true,
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
                    false
                }
            }
        })
        .await;
        let next = soon("it is free", other.mutex("a").lock()).await.unwrap();
        assert!(next.token() > token);
    });
}
