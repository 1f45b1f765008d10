//! Clients behind `etcd grpc-proxy`, which gives ids of its own to watches and answers signs of
//! life when it gives some itself.

use std::time::Duration;

use futures_util::future::join_all;
use tenure_core::event::EventKind;
use tenure_core::{Locks, WatchEvent};
use tenure_servers::Store as _;
use tenure_servers::etcd::{Cluster, GrpcProxy};

use super::stage::{play, soon, until_line};

/// A ttl of which no renewal is due in a test, so that no ticket looks by itself.
const LONG: Duration = Duration::from_secs(3600);
/// The shortest ttl that the README recommends behind a proxy.
const TTL: Duration = Duration::from_secs(12);

async fn through(cluster: &Cluster) -> (GrpcProxy, Locks) {
    let proxy = GrpcProxy::before(cluster).expect("the proxy starts");
    let locks = tenure_etcd::connect(proxy.url()).await.unwrap();
    (proxy, locks)
}

#[test]
fn waiters_behind_a_grpc_proxy_are_woken_by_each_release() {
    const WAITERS: usize = 20;
    play(1, async |cluster| {
        let (proxy, locks) = through(&cluster).await;
        let other = tenure_etcd::connect(proxy.url()).await.unwrap();
        let guard = locks.mutex("k").ttl(LONG).lock().await.unwrap();
        let wait = |at: usize| {
            let mutex = if at < WAITERS / 2 { &locks } else { &other }.mutex("k").ttl(LONG);
            tokio::spawn(async move {
                mutex.lock().await.unwrap().release().await.unwrap();
            })
        };
        let waiting: Vec<_> = (0..WAITERS).map(wait).collect();
        until_line(&other, "k", WAITERS + 1).await;
        guard.release().await.unwrap();
        // A waiter that is not woken looks by itself after a third of its ttl, which is longer than
        // this is waited for.
        for served in soon("all are served", join_all(waiting)).await {
            served.unwrap();
        }
    });
}

#[test]
fn a_waiter_behind_a_grpc_proxy_asks_nothing_while_it_waits() {
    /// Longer than a waiter waits for a watch that does not begin, and rests before the next one.
    const WHILE: Duration = Duration::from_secs(15);
    /// The first time may be that in which the watch begins.
    const TIMES: usize = 3;
    play(1, async |cluster| {
        let (proxy, locks) = through(&cluster).await;
        let other = tenure_etcd::connect(proxy.url()).await.unwrap();
        let guard = locks.mutex("k").ttl(LONG).lock().await.unwrap();
        let waiting = tokio::spawn({
            let mutex = other.mutex("k").ttl(LONG);
            async move { mutex.lock().await }
        });
        until_line(&locks, "k", 2).await;
        let member = &cluster.members()[0];
        let asked = || ["Txn", "Range", "Watch"].map(|method| member.requests(method));
        let mut times = Vec::new();
        while times.len() < TIMES {
            let before = asked();
            tokio::time::sleep(WHILE).await;
            times.push((before, asked()));
            if times.last().is_some_and(|(before, after)| before == after) {
                guard.release().await.unwrap();
                let next = soon("the waiter is served", waiting).await.unwrap().unwrap();
                return next.release().await.unwrap();
            }
        }
        panic!("it asks again and again: {times:?}");
    });
}

#[test]
fn readers_behind_a_grpc_proxy_are_woken_by_the_writer_that_keeps_them_out() {
    const READERS: usize = 8;
    play(1, async |cluster| {
        let (_proxy, locks) = through(&cluster).await;
        let writer = locks.rwlock("k").ttl(LONG).write().await.unwrap();
        let read = |_| {
            let lock = locks.rwlock("k").ttl(LONG);
            tokio::spawn(async move { lock.read().await.unwrap().release().await.unwrap() })
        };
        let readers: Vec<_> = (0..READERS).map(read).collect();
        until_line(&locks, "k", READERS + 1).await;
        writer.release().await.unwrap();
        for reader in readers {
            soon("each is served", reader).await.unwrap();
        }
    });
}

#[test]
fn a_holder_behind_a_grpc_proxy_keeps_its_lock_and_an_onlooker_hears_of_it() {
    play(1, async |cluster| {
        let (_proxy, locks) = through(&cluster).await;
        let mut watch = locks.watch_prefix("").await.unwrap();
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        let token = guard.token();
        tokio::time::sleep(TTL * 2).await;
        guard.check().expect("it is kept alive");
        assert_eq!(guard.token(), token);
        guard.release().await.unwrap();
        for what in [EventKind::Joined, EventKind::Served, EventKind::Left] {
            let told = soon("it is told", watch.next()).await.unwrap();
            assert!(matches!(&told, WatchEvent::Event(event) if event.kind == what), "{told:?}");
        }
    });
}
