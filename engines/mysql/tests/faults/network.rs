//! Connections are cut, and answers are lost, as every engine has to survive it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tenure_conformance::fault::Proxy;
use tenure_conformance::fault::stories::network::CutOff;
use tenure_servers::mariadb::Server;

use super::stage::{connect, play};

/// Runs a test with a client that can be cut off, beside one that cannot.
fn cut_off(story: impl AsyncFnOnce(CutOff)) {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).unwrap();
        let address = proxy.address();
        let url = format!("mariadb://root@{address}/locks?timeout=500ms");
        let (locks, other) = (connect(url).await, connect(server.url()).await);
        story(CutOff { proxy, locks, other, ttl: Duration::from_secs(2) }).await;
    });
}

tenure_conformance::network_stories!(cut_off);
