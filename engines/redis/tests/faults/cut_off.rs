//! Connections are cut, and answers are lost, as every engine has to survive it.

use std::time::Duration;

use tenure_conformance::fault::stories::network::CutOff;
use tenure_servers::redis::Server;

use super::stage::{connect, connect_at_last, play, proxy_to};

/// Plays a story with a client that can be cut off, beside one that cannot.
fn cut_off(story: impl AsyncFnOnce(CutOff)) {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let locks = connect_at_last(format!("redis://{}?timeout=500ms", proxy.address())).await;
        let other = connect(server.url()).await;
        story(CutOff { proxy, locks, other, ttl: Duration::from_secs(2) }).await;
    });
}

tenure_conformance::network_stories!(cut_off);
