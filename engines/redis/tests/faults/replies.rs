//! A connection is cut before a verb arrives, or after it was carried out: twice is once.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_conformance::fault::{Act, Match, Proxy};
use tenure_core::{
    Engine, ErrorKind, LeaveMode, LeaveOutcome, Ticket, TicketState, WaitMode, Window,
};
use tenure_redis::RedisStore;
use tenure_servers::redis::{Cluster, Server};

use super::stage::{
    LONG, assert_refused, cluster_store, connect, head, play, proxy_to, soon, store,
    tell_clients_of, ticket,
};

/// An engine behind a proxy, and an honest one to look with.
struct Wire {
    server: Server,
    proxy: Proxy,
    store: RedisStore,
    onlooker: RedisStore,
}

impl Wire {
    async fn new() -> Self {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let store = store(&format!("redis://{}", proxy.address())).await;
        let onlooker = super::stage::store(&server.url()).await;
        // The scripts are loaded before, so that a fault hits a verb and not the load of a script.
        onlooker.line(&ticket("a", LONG).key).await.unwrap();
        Self { server, proxy, store, onlooker }
    }

    /// Applies this fault to the next call of a script.
    fn spoil(&self, act: Act) {
        self.proxy.on(Match::request_containing("EVALSHA"), act);
    }
}

const CUTS: [Act; 2] = [Act::CutBefore, Act::CutAfter];

#[test]
fn a_join_whose_answer_was_lost_is_in_the_line_once() {
    play(async || {
        let Wire { server: _server, proxy, store, onlooker } = &Wire::new().await;
        for act in CUTS {
            for is_free in [true, false] {
                let (holder, own) = (ticket("a", LONG), ticket("a", LONG));
                if !is_free {
                    onlooker.join(&holder, WaitMode::Wait).await.unwrap();
                }
                proxy.on(Match::request_containing("EVALSHA"), act);
                let lost = store.join(&own, WaitMode::Wait).await;
                assert_refused(lost, ErrorKind::Unavailable, &["127.0.0.1"]);
                let line = onlooker.line(&own.key).await.unwrap();
                let there = line.iter().find(|(it, _)| it.id == own.id).map(|(_, it)| it.number);
                assert_eq!(there.is_some(), act == Act::CutAfter);

                let place = store.join(&own, WaitMode::Wait).await.unwrap().unwrap();
                assert!(there.is_none_or(|number| number == place.number));
                assert_eq!(place.state == TicketState::Holding, is_free);
                let line = onlooker.line(&own.key).await.unwrap();
                assert_eq!(line.len(), 1 + usize::from(!is_free));
                for ticket in [&holder, &own] {
                    onlooker.leave(ticket, LeaveMode::Now).await.unwrap();
                }
            }
        }
    });
}

#[test]
fn a_renewal_whose_answer_was_lost_is_a_sign_of_life_all_the_same() {
    play(async || {
        let wire = Wire::new().await;
        let own = ticket("a", LONG);
        wire.store.join(&own, WaitMode::Wait).await.unwrap();
        for act in CUTS {
            wire.spoil(act);
            let noted = own.clone().with_note(format!("{act:?}")).unwrap();
            assert_refused(wire.store.renew(&noted).await, ErrorKind::Unavailable, &["127.0.0.1"]);
            let line = wire.onlooker.line(&own.key).await.unwrap();
            assert_eq!(line[0].0.note == noted.note, act == Act::CutAfter);
            let place = wire.store.renew(&noted).await.unwrap().unwrap();
            assert_eq!(place.state, TicketState::Holding);
        }
    });
}

#[test]
fn a_leave_whose_answer_was_lost_has_left() {
    play(async || {
        let wire = Wire::new().await;
        for act in CUTS {
            let (own, next) = (ticket("a", LONG), ticket("a", LONG));
            wire.store.join(&own, WaitMode::Wait).await.unwrap();
            wire.onlooker.join(&next, WaitMode::Wait).await.unwrap();
            wire.spoil(act);
            let lost = wire.store.leave(&own, LeaveMode::Now).await;
            assert_refused(lost, ErrorKind::Unavailable, &["127.0.0.1"]);
            let had_left = act == Act::CutAfter;
            let line = wire.onlooker.line(&own.key).await.unwrap();
            assert_eq!(line.len() == 1, had_left);
            let left = wire.store.leave(&own, LeaveMode::Now).await.unwrap();
            assert_eq!(left, if had_left { LeaveOutcome::Absent } else { LeaveOutcome::Holding });
            let served = wire.onlooker.watch(&next, TicketState::Waiting);
            assert!(matches!(
                soon("the next is told", served).await.unwrap(),
                tenure_core::Wake::Served(_)
            ));
            assert_eq!(
                wire.onlooker.leave(&next, LeaveMode::Now).await.unwrap(),
                LeaveOutcome::Holding
            );
        }
    });
}

#[test]
fn a_sequence_may_skip_a_number_and_gives_none_twice() {
    play(async || {
        let wire = Wire::new().await;
        let key = ticket("a", LONG).key;
        let mut last = 0;
        for act in CUTS {
            wire.spoil(act);
            assert_refused(wire.store.add(&key, 1, None).await, ErrorKind::Unavailable, &[]);
            let skipped = u64::from(act == Act::CutAfter);
            let value = wire.store.add(&key, 1, None).await.unwrap().value;
            assert_eq!(value, last + 1 + skipped);
            last = value;
        }
        // `Locks` repeats the request. Its caller sees only that one number is skipped.
        let locks = connect(format!("redis://{}", wire.proxy.address())).await;
        wire.spoil(Act::CutAfter);
        assert_eq!(locks.sequence("a").next().await.unwrap(), last + 2);
    });
}

#[test]
fn a_count_whose_answer_was_lost_may_be_counted_and_is_not_sent_again() {
    play(async || {
        let wire = Wire::new().await;
        let window = Some(Window { per: LONG, limit: Some(9) });
        let key = ticket("a", LONG).key;
        for (act, counted) in [(Act::CutBefore, 0), (Act::CutAfter, 1)] {
            wire.spoil(act);
            assert_refused(wire.store.add(&key, 1, window).await, ErrorKind::Unavailable, &[]);
            assert_eq!(wire.store.add(&key, 0, window).await.unwrap().value, counted);
        }
        let locks = connect(format!("redis://{}", wire.proxy.address())).await;
        wire.spoil(Act::CutAfter);
        let counter = locks.counter("a").window(LONG).limit(9);
        assert_refused(counter.add(1).await, ErrorKind::Unavailable, &[]);
        assert_eq!(counter.get().await.unwrap().value, 2);
    });
}

#[test]
fn who_only_looks_may_look_again() {
    play(async || {
        let wire = Wire::new().await;
        let own = ticket("a", LONG);
        wire.store.join(&own, WaitMode::Wait).await.unwrap();
        for act in CUTS {
            wire.spoil(act);
            assert_refused(wire.store.line(&own.key).await, ErrorKind::Unavailable, &[]);
            assert_eq!(wire.store.line(&own.key).await.unwrap().len(), 1);
            wire.spoil(act);
            assert_refused(wire.store.keys("").await, ErrorKind::Unavailable, &[]);
            assert_eq!(wire.store.keys("").await.unwrap(), std::slice::from_ref(&own.key));
        }
    });
}

#[test]
fn nobody_notices_a_lost_answer_behind_the_public_verbs() {
    play(async || {
        let wire = Wire::new().await;
        let locks = connect(format!("redis://{}", wire.proxy.address())).await;
        let mut newest = 0;
        for act in CUTS {
            for _ in 0..3 {
                wire.spoil(act);
                let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
                assert!(guard.token().get() > newest);
                newest = guard.token().get();
                wire.spoil(act);
                guard.extend().await.unwrap();
                wire.spoil(act);
                guard.release().await.unwrap();
                wire.spoil(act);
                let guard = locks.mutex("a").ttl(LONG).try_lock().await.unwrap();
                let guard = guard.expect("it is free, and its own ticket is no other's");
                wire.spoil(act);
                assert_eq!(locks.line("a").await.unwrap().len(), 1);
                drop(guard);
                wire.spoil(act);
                locks.flush().await;
                assert!(locks.line("a").await.unwrap().is_empty());
            }
        }
        assert_eq!(wire.onlooker.keys("").await.unwrap(), []);
    });
}

#[test]
fn a_lock_that_is_given_too_late_is_not_a_lock() {
    play(async || {
        const TTL: Duration = Duration::from_secs(1);
        let wire = Wire::new().await;
        let url = format!("redis://{}?timeout=60s", wire.proxy.address());
        let locks = connect(url).await;
        let key = ticket("a", TTL).key;
        for waits in [false, true] {
            let held = wire.proxy.on(Match::request_containing("EVALSHA"), Act::HoldReply);
            let asked = tokio::spawn({
                let mutex = locks.mutex("a").ttl(TTL);
                async move { if waits { mutex.lock().await.map(Some) } else { mutex.try_lock().await } }
            });
            // The ticket joins the line, and then it expires.
            for is_empty in [false, true] {
                super::stage::until("its ticket comes and goes", async || {
                    wire.onlooker.line(&key).await.unwrap().is_empty() == is_empty
                })
                .await;
            }
            let other = ticket("a", LONG);
            let theirs = wire.onlooker.join(&other, WaitMode::NoWait).await.unwrap().unwrap();
            held.release();
            if !waits {
                let late = soon("it answers", asked).await.unwrap();
                assert_refused(late, ErrorKind::Unavailable, &["too late", "has expired"]);
                wire.onlooker.leave(&other, LeaveMode::Now).await.unwrap();
                locks.flush().await;
                continue;
            }
            super::stage::until("it stands in line again", async || {
                wire.onlooker.line(&key).await.unwrap().len() == 2
            })
            .await;
            assert!(!asked.is_finished());
            wire.onlooker.leave(&other, LeaveMode::Now).await.unwrap();
            let guard = soon("it is served", asked).await.unwrap().unwrap().unwrap();
            assert!(guard.token().get() > theirs.number);
        }
        assert!(wire.server.pid().is_ok());
    });
}

/// A relay to a server that can send bytes of its own before the next answer.
struct Relay {
    port: u16,
    stray: Arc<Mutex<Option<&'static [u8]>>>,
    /// Number of connections so far.
    connections: Arc<AtomicUsize>,
}

impl Relay {
    fn to(server: &Server) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (port, server) = (listener.local_addr().unwrap().port(), server.port());
        let stray: Arc<Mutex<Option<&'static [u8]>>> = Arc::default();
        let (said, connections) = (stray.clone(), Arc::new(AtomicUsize::new(0)));
        let count = connections.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::Relaxed);
                let Ok(there) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { return };
                let (mut asks, mut server) =
                    (client.try_clone().unwrap(), there.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut asks, &mut server));
                let said = said.clone();
                std::thread::spawn(move || answer(there, client, &said));
            }
        });
        Self { port, stray, connections }
    }

    fn say_before_the_next_answer(&self, stray: &'static [u8]) {
        *self.stray.lock().unwrap() = Some(stray);
    }
}

fn answer(mut server: TcpStream, mut client: TcpStream, said: &Mutex<Option<&'static [u8]>>) {
    let mut answer = [0; 4096];
    while let Ok(length @ 1..) = server.read(&mut answer) {
        let stray = said.lock().unwrap().take().unwrap_or_default();
        if client.write_all(&[stray, &answer[..length]].concat()).is_err() {
            return;
        }
    }
}

#[test]
fn what_answers_nothing_is_no_token_and_ends_its_connection() {
    play(async || {
        let server = Server::start().unwrap();
        let relay = Relay::to(&server);
        let store = store(&format!("redis://127.0.0.1:{}", relay.port)).await;
        hear_strays(&relay, &store, "b").await;
    });
}

#[test]
fn what_answers_nothing_in_a_cluster_ends_its_connections() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        let port_of = |key: &str| {
            cluster.owner_of(cluster.slot_of(&head(key)).unwrap()).map(Server::port).unwrap()
        };
        let owner = cluster.owner_of(cluster.slot_of(&head("a")).unwrap()).unwrap();
        let mut others = (0..).map(|count| format!("b{count}"));
        let beside = others.find(|other| port_of(other) == owner.port()).unwrap();
        let relay = Relay::to(owner);
        tell_clients_of(&cluster, owner, relay.port).await;
        let store = cluster_store(&format!("redis+cluster://127.0.0.1:{}", relay.port)).await;
        hear_strays(&relay, &store, &beside).await;
    });
}

/// `beside` is another key of the server behind the relay.
async fn hear_strays(relay: &Relay, store: &impl Engine, beside: &str) {
    let held = ticket(beside, LONG);
    store.join(&held, WaitMode::Wait).await.unwrap();
    let mut last = 0;
    for stray in [&b"+OK\r\n"[..], b":2\r\n", b":0\r\n", b"*1\r\n:7\r\n"] {
        let own = ticket("a", LONG);
        let connections = relay.connections.load(Ordering::Relaxed);
        relay.say_before_the_next_answer(stray);
        let error = store.join(&own, WaitMode::Wait).await.unwrap_err();
        assert!(error.is_retryable(), "it may be in its line: {error}");
        assert!(error.to_string().contains("do not give"), "{error}");
        // The answer to that join is still on its way, over a connection that no caller reads any
        // more.
        let join = async |ticket: &Ticket, patience| loop {
            match store.join(ticket, patience).await {
                Ok(place) => return place,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        };
        let other = ticket(beside, LONG);
        let beside = soon("it is answered", join(&other, WaitMode::NoWait)).await;
        assert!(beside.is_none(), "what another ticket was told is no place of this one");
        assert!(relay.connections.load(Ordering::Relaxed) > connections, "it goes another way");
        let place = soon("it is answered", join(&own, WaitMode::Wait)).await.unwrap();
        assert!(place.number > last && place.state == TicketState::Holding, "{place:?}");
        last = place.number;
        assert_eq!(store.leave(&own, LeaveMode::Now).await.unwrap(), LeaveOutcome::Holding);
    }
}
