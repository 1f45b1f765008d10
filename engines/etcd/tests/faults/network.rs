//! Connections are cut, and answers are lost.

use std::net::{Ipv4Addr, SocketAddr};

use tenure_conformance::fault::Proxy;
use tenure_conformance::fault::stories::network::CutOff;
use tenure_core::Locks;
use tenure_servers::etcd::Cluster;

use super::stage::{TTL, at_last, connect, play};

/// Returns a proxy before the first member.
pub(super) fn proxy_to(cluster: &Cluster) -> Proxy {
    let member = cluster.members()[0].port();
    Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, member))).unwrap()
}

async fn through(cluster: &Cluster) -> (Proxy, Locks) {
    let proxy = proxy_to(cluster);
    let url = format!("etcd://127.0.0.1:{}?timeout=500ms", proxy.port());
    let locks = at_last("it connects", async || tenure_etcd::connect(&url).await).await;
    (proxy, locks)
}

/// Plays a story with a client that can be cut off, beside one that cannot.
fn cut_off(story: impl AsyncFnOnce(CutOff)) {
    play(1, async |cluster| {
        let (proxy, locks) = through(&cluster).await;
        story(CutOff { proxy, locks, other: connect(&cluster).await, ttl: TTL }).await;
    });
}

tenure_conformance::network_stories!(cut_off);
