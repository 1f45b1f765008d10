//! Silence: a server that is frozen, and callers that get an answer all the same.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tenure_conformance::fault::{Outage, Proxy};
use tenure_core::{Engine as _, ErrorKind, WaitMode};
use tenure_servers::mongodb::Server;

use super::stage::{LONG, connect, count, join, play, soon, store, ticket, until};

const GUARDS: usize = 1000;
/// Longer than all attempts at one verb may take.
const OUTAGE: Duration = Duration::from_secs(12);

#[test]
fn all_callers_of_a_frozen_server_have_their_answer_within_the_one_time() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let within = store.guarantees().answers_within;
        let held = ticket("a", LONG);
        let before = join(&store, &held).await;
        server.freeze().unwrap();
        let began = Instant::now();
        let others: Vec<_> = (0..40).map(|at| ticket(&format!("k{at}"), LONG)).collect();
        let asked = others.iter().map(|ticket| store.join(ticket, WaitMode::Wait));
        for answer in futures_util::future::join_all(asked).await {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
        }
        assert!(began.elapsed() < within * 3, "{:?}", began.elapsed());
        server.thaw().unwrap();
        until("it answers again", async || store.renew(&held).await.is_ok()).await;
        let place = store.renew(&held).await.unwrap().expect("it stands there");
        assert_eq!(place.number, before.number);
    });
}

#[test]
fn a_killed_server_keeps_its_locks() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let (held, waits) = (ticket("a", LONG), ticket("a", LONG));
        let before = join(&store, &held).await;
        join(&store, &waits).await;
        server.kill().unwrap();
        server.restart().unwrap();
        until("it answers again", async || store.renew(&held).await.is_ok()).await;
        let place = store.renew(&held).await.unwrap().expect("it stands there");
        assert_eq!(place.number, before.number);
        assert_eq!(store.line(&held.key).await.unwrap().len(), 2);
    });
}

#[test]
fn a_holder_that_was_silent_for_longer_than_its_life_is_out() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let brief = ticket("a", Duration::from_millis(300));
        let first = store.join(&brief, WaitMode::Wait).await.unwrap().unwrap();
        until("its life ends", async || store.line(&brief.key).await.unwrap().is_empty()).await;
        assert_eq!(store.renew(&brief).await.unwrap(), None);
        let next = store.join(&ticket("a", LONG), WaitMode::Wait).await.unwrap().unwrap();
        assert!(next.number > first.number);
    });
}

#[test]
fn memory_is_flat_while_the_server_stands_still() {
    play(async || {
        let server = Server::start().unwrap();
        Outage::of(&server.url()).runs("frozen", || server.freeze().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nobody_listens() {
    play(async || {
        let server = Server::start().unwrap();
        Outage::of(&server.url()).runs("refusing", || server.kill().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nothing_passes() {
    play(async || {
        let server = Server::start().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
        let proxy = Proxy::to(address).unwrap();
        let url = format!("mongodb://127.0.0.1:{}/?directConnection=true", proxy.port());
        Outage::of(&url).runs("black-holed", || proxy.black_hole());
    });
}

/// Not a test: the entry point of the client's process.
#[test]
fn client_process() {
    Outage::be_client(connect);
}

/// A thousand guards are dropped while the server does not answer. When it is back, all are
/// released, without a thousand commands at once, and with at most three for each guard.
#[test]
fn guards_that_were_dropped_in_an_outage_are_given_back_without_a_storm() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let mut guards = Vec::new();
        for at in 0..GUARDS {
            guards.push(locks.mutex(format!("k{at}")).ttl(LONG).lock().await.unwrap());
        }
        let before = count(&server, "findAndModify");
        server.freeze().unwrap();
        drop(guards);
        tokio::time::sleep(OUTAGE).await;
        server.thaw().unwrap();
        soon("all are given back", locks.flush()).await;
        let sent = count(&server, "findAndModify") - before;
        println!("{sent} commands for {GUARDS} guards");
        assert!(sent <= i64::try_from(GUARDS).unwrap() * 3, "{sent} commands");
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}
