//! A stranger's transaction has the row of a line while a verb needs it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tenure_conformance::fault::{Act, Match, Proxy};
use tenure_core::{Engine as _, ErrorKind, LeaveMode, LeaveOutcome, Result, TicketState};
use tenure_core::{WaitMode, Window};
use tenure_servers::postgres::Server;

use super::stage::{
    LONG, PATIENCE, Stranger, at_last, connect, connections, engine, key, number, play,
    row_refusals, soon, ticket, until,
};

const ENDS: [&str; 2] = ["COMMIT", "ROLLBACK"];
const WINDOW: Option<Window> = Some(Window { per: LONG, limit: None });

/// Whether the last ticket of `a` has expired.
const IS_OVER: &str = "SELECT count(*) FROM tenure.line WHERE key = 'a' \
     AND ends_us < extract(epoch FROM clock_timestamp()) * 1000000";

/// Runs a verb while a stranger's transaction has executed `statement`. The transaction ends after
/// the server has refused a row to the verb, and after `before_end`.
async fn behind<T: Send + 'static>(
    server: &Server,
    (statement, end): (&str, &str),
    verb: impl Future<Output = Result<T>> + Send + 'static,
    before_end: impl AsyncFnOnce(),
) -> T {
    let stranger = Stranger::of(server).await;
    stranger.sql(&format!("BEGIN; {statement}")).await;
    let before = row_refusals(server);
    let verb = tokio::spawn(verb);
    until("the row is refused", async || row_refusals(server) > before || verb.is_finished()).await;
    assert!(!verb.is_finished(), "the verb did not wait for: {statement}");
    before_end().await;
    stranger.sql(end).await;
    soon("the verb is answered", verb).await.unwrap().unwrap()
}

/// A statement that replaces the record of `a` by that of `b`, as another client would write it.
const TAKE_A: &str = "UPDATE tenure.line a SET version = a.version + 1, at_us = b.at_us, \
     last = b.last, holder = b.holder, ends_us = b.ends_us, tickets = b.tickets \
     FROM tenure.line b WHERE a.key = 'a' AND b.key = 'b'";
const INSERT_A: &str = "INSERT INTO tenure.line SELECT 'a', version, at_us, last, holder, ends_us, \
     tickets, longest_us FROM tenure.line WHERE key = 'b'";

#[test]
fn each_verb_of_a_line_decides_on_the_record_that_a_blocker_leaves() {
    play(async || {
        let server = Server::start().unwrap();
        let engine = engine(&format!("{}?timeout=60s", server.url())).await;
        let b = ticket("b", LONG);
        for end in ENDS {
            let is_taken = end == "COMMIT";
            let fresh = async |is_new: bool| {
                server.sql("DELETE FROM tenure.line").unwrap();
                let a = ticket("a", LONG);
                if !is_new {
                    engine.join(&a, WaitMode::NoWait).await.unwrap().expect("it is free");
                }
                engine.join(&b, WaitMode::NoWait).await.unwrap().expect("it is free");
                a
            };
            for (is_new, statement) in [(true, INSERT_A), (false, TAKE_A)] {
                for patience in [WaitMode::NoWait, WaitMode::Wait] {
                    let first = fresh(is_new).await;
                    if !is_new {
                        engine.leave(&first, LeaveMode::Now).await.unwrap();
                    }
                    let (own, a) = (engine.clone(), ticket("a", LONG));
                    let joins = async move { own.join(&a, patience).await };
                    let place = behind(&server, (statement, end), joins, async || {}).await;
                    let state = place.map(|place| place.state);
                    let wanted = match (is_taken, patience) {
                        (false, _) => Some(TicketState::Holding),
                        (true, WaitMode::Wait) => Some(TicketState::Waiting),
                        (true, WaitMode::NoWait) => None,
                    };
                    assert_eq!(state, wanted, "{statement} {end} {patience:?}");
                }
            }

            let (own, a) = (engine.clone(), fresh(false).await);
            let renews = async move { own.renew(&a).await };
            let place = behind(&server, (TAKE_A, end), renews, async || {
                let line = engine.line(&key("a")).await.unwrap();
                assert_ne!(line[0].0.id, b.id, "the line is read as it was committed");
            });
            assert_eq!(place.await.is_none(), is_taken, "{end}");
            let line = engine.line(&key("a")).await.unwrap();
            assert_eq!(line[0].0.id == b.id, is_taken, "{end}");

            let (own, a) = (engine.clone(), fresh(false).await);
            let leaves = async move { own.leave(&a, LeaveMode::Now).await };
            let left = behind(&server, (TAKE_A, end), leaves, async || {}).await;
            let wanted = if is_taken { LeaveOutcome::Absent } else { LeaveOutcome::Holding };
            assert_eq!(left, wanted, "{end}");
        }
    });
}

#[test]
fn each_verb_on_a_number_or_value_counts_from_what_a_blocker_leaves() {
    play(async || {
        let server = Server::start().unwrap();
        let engine = engine(&format!("{}?timeout=60s", server.url())).await;
        for (at, end) in ENDS.into_iter().enumerate() {
            let is_changed = end == "COMMIT";
            let name = key(&format!("k{at}"));
            let by = async |window| engine.add(&name, 1, window).await.unwrap().value;
            for (window, table) in [(None, "sequence"), (WINDOW, "count")] {
                assert_eq!(by(window).await, 1);
                let adds = format!("UPDATE tenure.{table} SET value = value + 10");
                let (own, name) = (engine.clone(), name.clone());
                let verb = async move { own.add(&name, 1, window).await };
                let value = behind(&server, (&adds, end), Box::pin(verb), async || {}).await;
                assert_eq!(value.value, if is_changed { 12 } else { 2 }, "{table} {end}");
            }
            engine.swap(&name, "", "first").await.unwrap();
            let own = (engine.clone(), name.clone());
            let verb = async move { own.0.swap(&own.1, "first", "mine").await };
            let change = ("UPDATE tenure.value SET value = 'theirs'", end);
            let value = behind(&server, change, Box::pin(verb), async || {}).await;
            assert_eq!(value, if is_changed { "theirs" } else { "mine" }, "{end}");
        }
    });
}

#[test]
fn no_verb_decides_on_the_time_before_its_wait() {
    play(async || {
        const TTL: Duration = Duration::from_secs(2);
        const LOCK_A: &str = "SELECT FROM tenure.line WHERE key = 'a' FOR UPDATE";
        let server = Server::start().unwrap();
        let engine = engine(&format!("{}?timeout=60s", server.url())).await;
        for end in ENDS {
            let hold = async || {
                server.sql("DELETE FROM tenure.line").unwrap();
                let a = ticket("a", TTL);
                engine.join(&a, WaitMode::NoWait).await.unwrap().expect("it is free");
                a
            };
            let expires = async || {
                until("the lease ends", async || number(&server, IS_OVER) == 1).await;
            };
            let (own, a) = (engine.clone(), hold().await);
            let renews = async move { own.renew(&a).await };
            let renewed = behind(&server, (LOCK_A, end), renews, expires).await;
            assert!(renewed.is_none(), "a lease that has ended was renewed: {renewed:?}");

            let (own, a) = (engine.clone(), hold().await);
            let leaves = async move { own.leave(&a, LeaveMode::Now).await };
            let left = behind(&server, (LOCK_A, end), leaves, expires).await;
            assert_eq!(left, LeaveOutcome::Absent, "{end}");

            let (own, first, next) = (engine.clone(), hold().await, ticket("a", LONG));
            let joining = next.clone();
            let joins = async move { own.join(&joining, WaitMode::Wait).await };
            behind(&server, (LOCK_A, end), joins, expires).await.expect("it waits");
            // While the row was blocked, no further ticket was served.
            let place = engine.renew(&next).await.unwrap().expect("it is in the line");
            assert_eq!(place.state, TicketState::Holding, "{end}");
            assert!(engine.renew(&first).await.unwrap().is_none(), "{end}");
        }
    });
}

#[test]
fn no_verb_decides_on_an_answer_that_came_late() {
    play(async || {
        const TTL: Duration = Duration::from_secs(2);
        // The first statement of each verb reads the line.
        const READS: &str = "_1($1";
        let server = Server::start().unwrap();
        let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).unwrap();
        let url = format!("postgres://postgres@{}/postgres?timeout=60s", proxy.address());
        let engine = engine(&url).await;
        // Each verb decides on a lease that ends before it knows.
        for verb in ["renew", "leave", "join"] {
            server.sql("DELETE FROM tenure.line").unwrap();
            let (held, next) = (ticket("a", TTL), ticket("a", LONG));
            // Two tickets, so no verb is that of a lone one.
            for ticket in [&held, &ticket("a", TTL)] {
                engine.join(ticket, WaitMode::Wait).await.unwrap().expect("it is in the line");
            }
            let reply = proxy.on(Match::request_containing(READS), Act::HoldReply);
            let asks = async {
                match verb {
                    "renew" => assert_eq!(engine.renew(&held).await.unwrap(), None),
                    "leave" => {
                        let left = engine.leave(&held, LeaveMode::Now).await.unwrap();
                        assert_eq!(left, LeaveOutcome::Absent);
                    }
                    _ => {
                        let place = engine.join(&next, WaitMode::Wait).await.unwrap();
                        assert_eq!(place.unwrap().state, TicketState::Holding);
                    }
                }
            };
            let late = async {
                until("the line is read", async || reply.is_hit()).await;
                until("the lease ends", async || number(&server, IS_OVER) == 1).await;
                reply.release();
            };
            soon("it is answered", async { tokio::join!(asks, late) }).await;
        }
    });
}

#[test]
fn a_row_that_is_blocked_keeps_no_other_key_waiting() {
    play(async || {
        const TTL: Duration = Duration::from_secs(6);
        const BLOCK: Duration = Duration::from_secs(10);
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let mut guards = Vec::new();
        for at in 0..20 {
            guards.push(locks.mutex(format!("k{at}")).ttl(TTL).lock().await.unwrap());
        }
        let held = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let stranger = Stranger::of(&server).await;
        stranger.sql("BEGIN; SELECT FROM tenure.line WHERE key = 'a' FOR UPDATE").await;
        let began = Instant::now();
        let blocked = (0..4).map(|_| {
            let mutex = locks.mutex("a").ttl(LONG);
            tokio::spawn(async move {
                while began.elapsed() < BLOCK {
                    if let Ok(Some(_)) = mutex.try_lock_for(TTL).await {
                        panic!("a lock that is held was granted");
                    }
                }
            })
        });
        let blocked: Vec<_> = blocked.collect();
        let mut taken = 0;
        while began.elapsed() < BLOCK {
            let other = locks.mutex("other").ttl(LONG);
            let guard = at_last("another key is locked", async || other.lock().await).await;
            at_last("it renews", async || guard.extend().await).await;
            drop(guard);
            locks.sequence("other").next().await.unwrap();
            taken += 1;
        }
        println!("{taken} locks were taken in {BLOCK:?} beside a blocked row");
        stranger.sql("ROLLBACK").await;
        for guard in &guards {
            guard.check().expect("it was renewed");
        }
        for caller in blocked {
            soon("the blocked callers are answered", caller).await.unwrap();
        }
        held.extend().await.expect("it is held");
    });
}

#[test]
fn a_blocked_verb_is_answered_in_time_and_nothing_stale_is_carried_out() {
    play(async || {
        const TIMEOUT: Duration = Duration::from_millis(500);
        const STATE: &str = "SELECT (SELECT count(*) FROM tenure.line) * 1000000 + \
             (SELECT sum(version) FROM tenure.line) * 10000 + \
             (SELECT sum(value) FROM tenure.sequence) * 100 + (SELECT sum(value) FROM tenure.count)";
        let server = Server::start().unwrap();
        let engine = engine(&format!("{}?timeout=500ms", server.url())).await;
        let (free, held) = (ticket("free", LONG), ticket("held", LONG));
        let name = key("n");
        for ticket in [&free, &held] {
            at_last("it joins", async || engine.join(ticket, WaitMode::NoWait).await).await;
        }
        at_last("it leaves", async || engine.leave(&free, LeaveMode::Now).await).await;
        for window in [None, WINDOW] {
            let add = async || Box::pin(engine.add(&name, 1, window)).await;
            let added = at_last("it counts", add).await;
            assert!(added.allowed);
        }
        at_last("it swaps", async || Box::pin(engine.swap(&name, "", "a")).await).await;

        let stranger = Stranger::of(&server).await;
        let lock = "BEGIN; SELECT FROM tenure.line FOR UPDATE; SELECT FROM tenure.sequence FOR UPDATE; \
             SELECT FROM tenure.count FOR UPDATE; SELECT FROM tenure.value FOR UPDATE";
        stranger.sql(lock).await;
        let before = number(&server, STATE);
        let within = engine.guarantees().answers_within;
        assert_eq!(within, TIMEOUT * 3);
        let asked = Instant::now();
        let answered = async |kind: Result<()>| {
            let error = kind.expect_err("the row is blocked");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        };
        let another = ticket("held", LONG);
        tokio::join!(
            async { answered(engine.join(&free, WaitMode::NoWait).await.map(drop)).await },
            async { answered(engine.join(&another, WaitMode::Wait).await.map(drop)).await },
            async { answered(engine.renew(&held).await.map(drop)).await },
            async { answered(engine.leave(&held, LeaveMode::Now).await.map(drop)).await },
            async { answered(engine.add(&name, 1, None).await.map(drop)).await },
            async { answered(engine.add(&name, 1, WINDOW).await.map(drop)).await },
            async { answered(engine.swap(&name, "a", "b").await.map(drop)).await },
        );
        assert!(asked.elapsed() < within + PATIENCE / 20, "after {:?}", asked.elapsed());
        until("no statement waits", async || connections(&server, "active") == 0).await;
        stranger.sql("ROLLBACK").await;
        tokio::time::sleep(within * 2).await;
        assert_eq!(number(&server, STATE), before, "a stale verb was carried out");
        assert_eq!(server.sql("SELECT encode(value, 'escape') FROM tenure.value").unwrap(), "a");
    });
}
