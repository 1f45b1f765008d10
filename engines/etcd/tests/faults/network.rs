//! Connections are cut, and answers are lost.

use std::net::{Ipv4Addr, SocketAddr};

use tenure_conformance::fault::Proxy;
use tenure_conformance::fault::stories::network::{self, CutOff};
use tenure_core::Locks;
use tenure_servers::etcd::Cluster;

use super::stage::{TTL, at_last, connect, play};

/// A proxy before the first member.
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

#[test]
fn a_lock_outlives_a_connection_that_is_cut() {
    cut_off(network::a_lock_outlives_a_connection_that_is_cut);
}

#[test]
fn a_join_whose_answer_is_lost_holds_once_and_leaves_nothing_behind() {
    cut_off(network::a_join_whose_answer_is_lost_holds_once_and_leaves_nothing_behind);
}

#[test]
fn a_join_that_never_arrived_is_sent_again_or_leaves_nothing_behind() {
    cut_off(network::a_join_that_never_arrived_is_sent_again_or_leaves_nothing_behind);
}

#[test]
fn who_is_cut_off_is_told_before_the_lock_is_given_away_and_no_late_answer_revives_it() {
    cut_off(
        network::who_is_cut_off_is_told_before_the_lock_is_given_away_and_no_late_answer_revives_it,
    );
}

#[test]
fn forty_callers_of_a_silent_server_all_have_their_answer_in_time() {
    cut_off(network::forty_callers_of_a_silent_server_all_have_their_answer_in_time);
}
