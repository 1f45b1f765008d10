//! A request in a cluster is lost. No count may be sent again, and no WAIT without its write.

use std::time::Duration;

use tenure_conformance::fault::{Act, Match, Proxy};
use tenure_core::{Engine as _, ErrorKind, Key, WaitMode, Window};
use tenure_servers::redis::{Cluster, Server};

use super::stage::{
    LONG, assert_refused, cluster_store, head, play, proxy_to, tell_clients_of, ticket, until,
};

/// A cluster whose clients reach one of its masters by a way that can be spoiled.
struct Wire {
    cluster: Cluster,
    proxy: Proxy,
}

impl Wire {
    /// Puts the proxy before the master that has this key, and freezes each of its replicas.
    async fn to_owner_of(key: &str, replicas: usize) -> Self {
        let cluster = Cluster::with_replicas(replicas).unwrap();
        let owner = cluster.owner_of(cluster.slot_of(key).unwrap()).unwrap();
        for replica in replicas_of(&cluster, owner) {
            replica.freeze().unwrap();
        }
        let proxy = proxy_to(owner);
        tell_clients_of(&cluster, owner, proxy.port()).await;
        Self { cluster, proxy }
    }

    fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.proxy.port())
    }
}

fn replicas_of<'a>(cluster: &'a Cluster, owner: &Server) -> Vec<&'a Server> {
    let is_its = |node: &&Server| {
        let role = node.command(&["ROLE"]).unwrap();
        role.at(0).unwrap().text().unwrap() == "slave"
            && role.at(2).unwrap().integer().unwrap() == i64::from(owner.port())
    };
    cluster.nodes().iter().filter(is_its).collect()
}

#[test]
fn a_windowed_count_whose_answer_was_lost_is_counted_once() {
    play(async || {
        let key = Key::new("a").unwrap();
        let wire = Wire::to_owner_of(&(head("a") + ":c"), 0).await;
        let store = cluster_store(&wire.url()).await;
        let window = Some(Window { per: Duration::from_secs(3600), limit: None });
        assert_eq!(store.add(&key, 1, window).await.unwrap().value, 1);
        for (act, counted) in [(Act::CutBefore, 1), (Act::CutAfter, 2)] {
            wire.proxy.on(Match::request_containing("EVALSHA"), act);
            let lost = store.add(&key, 1, window).await;
            assert_refused(lost, ErrorKind::Unavailable, &["127.0.0.1"]);
            until("it answers again", async || {
                store.add(&key, 0, window).await.is_ok_and(|now| now.value == counted)
            })
            .await;
        }
    });
}

#[test]
fn a_count_follows_its_slot() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        let (store, key) = (cluster_store(&cluster.url()).await, Key::new("a").unwrap());
        let window = Some(Window { per: Duration::from_secs(3600), limit: None });
        let slot = cluster.slot_of(&(head("a") + ":c")).unwrap();
        let from = cluster.owner_of(slot).unwrap();
        let to = cluster.nodes().iter().find(|it| it.port() != from.port()).unwrap();
        let count = async || store.add(&key, 1, window).await.unwrap().value;
        assert_eq!(count().await, 1);
        let relocation = cluster.relocate(slot, to).unwrap();
        assert_eq!(count().await, 2);
        relocation.carry().unwrap();
        assert_eq!(count().await, 3);
        relocation.finish().unwrap();
        assert_eq!(count().await, 4);
        to.command(&["SCRIPT", "FLUSH"]).unwrap();
        assert_eq!(count().await, 5);
    });
}

#[test]
fn a_replica_that_stands_still_holds_up_no_counts() {
    play(async || {
        let cluster = Cluster::with_replicas(1).unwrap();
        let (store, key) = (cluster_store(&cluster.url()).await, Key::new("a").unwrap());
        cluster.nodes()[3].freeze().unwrap();
        let window = Some(Window { per: Duration::from_secs(3600), limit: None });
        until("the connection for counts is there", async || {
            store.add(&key, 0, window).await.is_ok()
        })
        .await;
        assert_eq!(store.add(&key, 1, window).await.unwrap().value, 1);
    });
}

#[test]
fn a_new_connection_acknowledges_nothing_that_went_over_an_old_one() {
    play(async || {
        let wire = Wire::to_owner_of(&head("a"), 1).await;
        let store = cluster_store(&(wire.url() + "?acks=1")).await;
        let own = ticket("a", LONG);
        let told = ["only 0 of the 1 required replicas"];
        assert_refused(store.join(&own, WaitMode::Wait).await, ErrorKind::Unavailable, &told);
        // On a connection that has written nothing, WAIT counts every replica that there is.
        for words in ["EVALSHA", "WAIT"] {
            wire.proxy.on(Match::request_containing(words), Act::CutBefore);
            let joined = store.join(&own, WaitMode::Wait).await;
            assert_refused(joined, ErrorKind::Unavailable, &[]);
            wire.proxy.on(Match::request_containing(words), Act::CutBefore);
            assert_refused(store.renew(&own).await, ErrorKind::Unavailable, &[]);
            until("it answers again", async || {
                let renewed = store.renew(&own).await.unwrap_err();
                assert_eq!(renewed.kind(), ErrorKind::Unavailable, "{renewed}");
                renewed.to_string().contains(told[0])
            })
            .await;
        }
        for node in wire.cluster.nodes() {
            node.thaw().unwrap();
        }
        until("the replica has it", async || {
            store.renew(&own).await.is_ok_and(|place| place.is_some())
        })
        .await;
    });
}
