//! The servers do not answer: memory is flat and few connections are made. Afterwards only requests
//! of waiting callers are carried out.

use std::time::Duration;

use tenure_conformance::fault::{Outage, impatience};
use tenure_servers::Store as _;

use super::crowds::LONG;
use super::network::{proxy_to, url_of};
use super::stage::{connect, operator, play, received, soon, tickets};

#[test]
fn memory_is_flat_while_the_server_stands_still() {
    play(1, async |ensemble| {
        let server = &ensemble.servers()[0];
        Outage::of(&ensemble.url()).runs("frozen", || server.freeze().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nobody_listens() {
    play(1, async |ensemble| {
        let server = &ensemble.servers()[0];
        Outage::of(&ensemble.url()).runs("refusing", || server.kill().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nothing_passes() {
    play(1, async |ensemble| {
        let proxy = proxy_to(&ensemble);
        Outage::of(&url_of(&proxy)).runs("black-holed", || proxy.black_hole());
    });
}

#[test]
fn a_server_that_turns_clients_out_sees_few_connections() {
    /// Two sessions, of which each tries again after a pause.
    const EACH_SECOND: u64 = 10;
    play(1, async |ensemble| {
        let proxy = proxy_to(&ensemble);
        let locks = tenure_zookeeper::connect(url_of(&proxy)).await.unwrap();
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        ensemble.servers()[0].kill().unwrap();
        let before = proxy.counts().connections;
        let within = impatience(&locks).await;
        let seen = proxy.counts().connections - before;
        println!("{seen} connections in {within:?}");
        let most = EACH_SECOND * (within.as_secs() + 1);
        assert!(seen <= most, "{seen} in {within:?}, and {most} are many");
    });
}

#[test]
fn a_thousand_guards_that_are_dropped_while_nobody_answers_are_swept_without_a_storm() {
    const GUARDS: u64 = 1000;
    play(1, async |ensemble| {
        let (locks, server) = (connect(&ensemble).await, &ensemble.servers()[0]);
        let operator = operator(&ensemble).await;
        let mut guards = Vec::new();
        for at in 0..GUARDS {
            guards.push(locks.mutex(format!("k{at}")).ttl(LONG).lock().await.unwrap());
        }
        let before = received(server);
        server.freeze().unwrap();
        drop(guards);
        tokio::time::sleep(Duration::from_secs(3)).await;
        server.thaw().unwrap();
        soon("all are given back", locks.flush()).await;
        let asked = received(server) - before;
        println!("{GUARDS} guards took {asked} packets");
        assert!(asked <= GUARDS * 3, "{asked} packets for {GUARDS} guards");
        assert!(tickets(&operator).await.is_empty());
    });
}

/// Not a test: where the client's process begins.
#[test]
fn client_process() {
    Outage::be_client(async |url| tenure_zookeeper::connect(url).await.unwrap());
}
