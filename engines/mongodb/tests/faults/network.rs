//! Connections are cut, and answers are lost, as every engine has to survive it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tenure_conformance::fault::Proxy;
use tenure_conformance::fault::stories::network::{self, CutOff};
use tenure_servers::mongodb::Server;

use super::stage::{connect, play};

/// Plays a story with a client that can be cut off, beside one that cannot.
fn cut_off(story: impl AsyncFnOnce(CutOff)) {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).unwrap();
        let address = proxy.address();
        let url = format!("mongodb://{address}/?directConnection=true&timeout=500ms");
        let (locks, other) = (connect(url).await, connect(server.url()).await);
        story(CutOff { proxy, locks, other, ttl: Duration::from_secs(2) }).await;
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
