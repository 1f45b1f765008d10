//! A connection is cut before a verb arrives, or after it was carried out: twice is once.

use std::time::Duration;

use tenure_conformance::fault::{Act, Match, Proxy};
use tenure_core::{Engine as _, Kind, Leave, Left, Patience, Standing, Window};
use tenure_redis::RedisStore;
use tenure_servers::redis::Server;

use super::stage::{LONG, assert_refused, connect, play, proxy_to, soon, store, ticket};

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
        // The server has been told the scripts: what is spoiled is a verb, and not that it lacks one.
        onlooker.line(&ticket("a", LONG).key).await.unwrap();
        Self { server, proxy, store, onlooker }
    }

    /// The next script is treated so.
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
                    onlooker.join(&holder, Patience::Wait).await.unwrap();
                }
                proxy.on(Match::request_containing("EVALSHA"), act);
                let lost = store.join(&own, Patience::Wait).await;
                assert_refused(lost, Kind::Unavailable, &["127.0.0.1"]);
                let line = onlooker.line(&own.key).await.unwrap();
                let there = line.iter().find(|(it, _)| it.id == own.id).map(|(_, it)| it.number);
                assert_eq!(there.is_some(), act == Act::CutAfter);

                let place = store.join(&own, Patience::Wait).await.unwrap().unwrap();
                assert!(there.is_none_or(|number| number == place.number));
                assert_eq!(place.standing == Standing::Holding, is_free);
                let line = onlooker.line(&own.key).await.unwrap();
                assert_eq!(line.len(), 1 + usize::from(!is_free));
                for ticket in [&holder, &own] {
                    onlooker.leave(ticket, Leave::Now).await.unwrap();
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
        wire.store.join(&own, Patience::Wait).await.unwrap();
        for act in CUTS {
            wire.spoil(act);
            let noted = tenure_core::Ticket { note: format!("{act:?}").into(), ..own.clone() };
            assert_refused(wire.store.renew(&noted).await, Kind::Unavailable, &["127.0.0.1"]);
            let line = wire.onlooker.line(&own.key).await.unwrap();
            assert_eq!(line[0].0.note == noted.note, act == Act::CutAfter);
            let place = wire.store.renew(&noted).await.unwrap().unwrap();
            assert_eq!(place.standing, Standing::Holding);
        }
    });
}

#[test]
fn a_leave_whose_answer_was_lost_has_left() {
    play(async || {
        let wire = Wire::new().await;
        for act in CUTS {
            let (own, next) = (ticket("a", LONG), ticket("a", LONG));
            wire.store.join(&own, Patience::Wait).await.unwrap();
            wire.onlooker.join(&next, Patience::Wait).await.unwrap();
            wire.spoil(act);
            let lost = wire.store.leave(&own, Leave::Now).await;
            assert_refused(lost, Kind::Unavailable, &["127.0.0.1"]);
            let had_left = act == Act::CutAfter;
            let line = wire.onlooker.line(&own.key).await.unwrap();
            assert_eq!(line.len() == 1, had_left);
            let left = wire.store.leave(&own, Leave::Now).await.unwrap();
            assert_eq!(left, if had_left { Left::Absent } else { Left::Holding });
            let served = wire.onlooker.watch(&next, Standing::Waiting);
            assert!(matches!(
                soon("the next is told", served).await.unwrap(),
                tenure_core::Wake::Served(_)
            ));
            assert_eq!(wire.onlooker.leave(&next, Leave::Now).await.unwrap(), Left::Holding);
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
            assert_refused(wire.store.tally(&key, 1, None).await, Kind::Unavailable, &[]);
            let skipped = u64::from(act == Act::CutAfter);
            let value = wire.store.tally(&key, 1, None).await.unwrap().value;
            assert_eq!(value, last + 1 + skipped);
            last = value;
        }
        // Whoever asks through `Locks` is asked for again, and sees only that one is skipped.
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
            assert_refused(wire.store.tally(&key, 1, window).await, Kind::Unavailable, &[]);
            assert_eq!(wire.store.tally(&key, 0, window).await.unwrap().value, counted);
        }
        let locks = connect(format!("redis://{}", wire.proxy.address())).await;
        wire.spoil(Act::CutAfter);
        let counter = locks.counter("a").window(LONG).limit(9);
        assert_refused(counter.add(1).await, Kind::Unavailable, &[]);
        assert_eq!(counter.get().await.unwrap().value, 2);
    });
}

#[test]
fn who_only_looks_may_look_again() {
    play(async || {
        let wire = Wire::new().await;
        let own = ticket("a", LONG);
        wire.store.join(&own, Patience::Wait).await.unwrap();
        for act in CUTS {
            wire.spoil(act);
            assert_refused(wire.store.line(&own.key).await, Kind::Unavailable, &[]);
            assert_eq!(wire.store.line(&own.key).await.unwrap().len(), 1);
            wire.spoil(act);
            assert_refused(wire.store.keys("").await, Kind::Unavailable, &[]);
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
                assert!(guard.token() > newest);
                newest = guard.token();
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
                locks.settled().await;
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
            // It is in the line, and then its life is over.
            for is_empty in [false, true] {
                super::stage::until("its ticket comes and goes", async || {
                    wire.onlooker.line(&key).await.unwrap().is_empty() == is_empty
                })
                .await;
            }
            let other = ticket("a", LONG);
            let theirs = wire.onlooker.join(&other, Patience::NoWait).await.unwrap().unwrap();
            held.release();
            if !waits {
                let late = soon("it answers", asked).await.unwrap();
                assert_refused(late, Kind::Unavailable, &["so late", "over already"]);
                wire.onlooker.leave(&other, Leave::Now).await.unwrap();
                locks.settled().await;
                continue;
            }
            super::stage::until("it stands in line again", async || {
                wire.onlooker.line(&key).await.unwrap().len() == 2
            })
            .await;
            assert!(!asked.is_finished());
            wire.onlooker.leave(&other, Leave::Now).await.unwrap();
            let guard = soon("it is served", asked).await.unwrap().unwrap().unwrap();
            assert!(guard.token() > theirs.number);
        }
        assert!(wire.server.pid().is_ok());
    });
}
