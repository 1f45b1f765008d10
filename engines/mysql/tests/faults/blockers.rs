//! A stranger's transaction has the row of a line while a verb needs it.

use std::time::{Duration, Instant};

use tenure_core::{Engine as _, ErrorKind, LeaveMode, LeaveOutcome, Result, TicketState};
use tenure_core::{WaitMode, Window};
use tenure_servers::mariadb::Server;

use super::stage::{
    LONG, PATIENCE, Stranger, at_last, connect, engine, key, number, play, row_waits, soon, ticket,
    transactions, until,
};

const ENDS: [&str; 2] = ["COMMIT", "ROLLBACK"];
const WINDOW: Option<Window> = Some(Window { per: LONG, limit: None });

/// Whether the last ticket of `a` has expired.
const IS_OVER: &str = "SELECT count(*) FROM locks.tenure_line WHERE `key` = 'a' \
     AND ends_us < timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))";

/// Runs a verb while a stranger's transaction has executed `statement`. The transaction ends after
/// the verb waits for the row, and after `before_end`.
async fn behind<T: Send + 'static>(
    server: &Server,
    (statement, end): (&str, &str),
    verb: impl Future<Output = Result<T>> + Send + 'static,
    before_end: impl AsyncFnOnce(),
) -> T {
    let mut stranger = Stranger::of(server).await;
    stranger.sql(&format!("BEGIN; {statement}")).await;
    let before = row_waits(server);
    let verb = tokio::spawn(verb);
    until("the verb waits", async || row_waits(server) > before || verb.is_finished()).await;
    assert!(!verb.is_finished(), "the verb did not wait for: {statement}");
    before_end().await;
    stranger.sql(end).await;
    soon("the verb is answered", verb).await.unwrap().unwrap()
}

/// A statement that replaces the record of `a` by that of `b`, as another client would write it.
const TAKE_A: &str = "UPDATE tenure_line a JOIN tenure_line b ON a.`key` = 'a' AND b.`key` = 'b' \
     SET a.version = a.version + 1, a.at_us = b.at_us, a.`last` = b.`last`, a.holder = b.holder, \
     a.ends_us = b.ends_us, a.tickets = b.tickets";
const INSERT_A: &str = "INSERT INTO tenure_line SELECT 'a', version, at_us, `last`, holder, ends_us, \
     tickets, longest_us FROM tenure_line WHERE `key` = 'b'";

#[test]
fn each_verb_of_a_line_decides_on_the_record_that_a_blocker_leaves() {
    play(async || {
        let server = Server::start().unwrap();
        let engine = engine(&format!("{}?timeout=60s", server.url())).await;
        let b = ticket("b", LONG);
        for end in ENDS {
            let is_taken = end == "COMMIT";
            let fresh = async |is_new: bool| {
                server.sql("DELETE FROM locks.tenure_line").unwrap();
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
                let adds = format!("UPDATE locks.tenure_{table} SET value = value + 10");
                let (own, name) = (engine.clone(), name.clone());
                let verb = async move { own.add(&name, 1, window).await };
                let value = behind(&server, (&adds, end), Box::pin(verb), async || {}).await;
                assert_eq!(value.value, if is_changed { 12 } else { 2 }, "{table} {end}");
            }
            engine.swap(&name, "", "first").await.unwrap();
            let own = (engine.clone(), name.clone());
            let verb = async move { own.0.swap(&own.1, "first", "mine").await };
            let change = ("UPDATE locks.tenure_value SET value = 'theirs'", end);
            let value = behind(&server, change, Box::pin(verb), async || {}).await;
            assert_eq!(value, if is_changed { "theirs" } else { "mine" }, "{end}");
        }
    });
}

#[test]
fn no_verb_decides_on_the_time_before_its_wait() {
    play(async || {
        const TTL: Duration = Duration::from_secs(2);
        const LOCK_A: &str = "SELECT 1 FROM locks.tenure_line WHERE `key` = 'a' FOR UPDATE";
        let server = Server::start().unwrap();
        let engine = engine(&format!("{}?timeout=60s", server.url())).await;
        for end in ENDS {
            let hold = async || {
                server.sql("DELETE FROM locks.tenure_line").unwrap();
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
        let mut stranger = Stranger::of(&server).await;
        stranger.sql("BEGIN; SELECT 1 FROM locks.tenure_line WHERE `key` = 'a' FOR UPDATE").await;
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
fn forty_rows_that_are_blocked_keep_no_other_key_waiting() {
    play(async || {
        const TAKEN: u32 = 10;
        // Without the gaps between the rows.
        const LOCK: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; \
             SELECT 1 FROM locks.tenure_line WHERE `key` LIKE 'k%' FOR UPDATE";
        let server = Server::start().unwrap();
        let engine = engine(&server.url()).await;
        let held: Vec<_> = (0..40).map(|at| ticket(&format!("k{at}"), LONG)).collect();
        for ticket in &held {
            engine.join(ticket, WaitMode::NoWait).await.unwrap().expect("it is free");
        }
        let mut stranger = Stranger::of(&server).await;
        stranger.sql(LOCK).await;
        let before = row_waits(&server);
        let renewals = held.iter().cloned().map(|ticket| {
            let own = engine.clone();
            tokio::spawn(async move {
                // Each request fails at its deadline.
                while own.renew(&ticket).await.is_err() {}
            })
        });
        let renewals: Vec<_> = renewals.collect();
        let other = ticket("other", LONG);
        for _ in 0..TAKEN {
            let joins = async || engine.join(&other, WaitMode::NoWait).await;
            at_last("another key is locked", joins).await.expect("it is free");
            at_last("it leaves", async || engine.leave(&other, LeaveMode::Now).await).await;
        }
        assert!(renewals.iter().all(|renewal| !renewal.is_finished()));
        // The server waited for few of the rows: each wait would stop all keys for a second.
        assert!(row_waits(&server) - before < TAKEN.into());
        stranger.sql("ROLLBACK").await;
        for renewal in renewals {
            soon("it is renewed", renewal).await.unwrap();
        }
    });
}

#[test]
fn a_verb_that_is_paused_in_its_middle_decides_on_what_it_finds_behind_the_pause() {
    play(async || {
        // Another client begins a quarantine.
        const CLOSE: &str = "UPDATE locks.tenure_meta SET serve_from_us = 86400000000 + \
             timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))";
        let server = Server::start().unwrap();
        let engine = engine(&format!("{}?timeout=60s", server.url())).await;
        for end in ENDS {
            // `join_1` and `write_1` have locked the row of the line, and wait for that of `meta`.
            for is_free in [true, false] {
                server.sql("DELETE FROM locks.tenure_line").unwrap();
                let open = "UPDATE locks.tenure_meta SET longest_us = 60000000, serve_from_us = 0";
                server.sql(open).unwrap();
                if !is_free {
                    let first = ticket("a", Duration::from_millis(500));
                    engine.join(&first, WaitMode::NoWait).await.unwrap().expect("it is free");
                    until("the lease ends", async || number(&server, IS_OVER) == 1).await;
                }
                let (own, a) = (engine.clone(), ticket("a", LONG));
                let joins = async move { own.join(&a, WaitMode::Wait).await };
                let place = behind(&server, (CLOSE, end), joins, async || {}).await;
                let wanted =
                    if end == "COMMIT" { TicketState::Waiting } else { TicketState::Holding };
                assert_eq!(place.map(|place| place.state), Some(wanted), "{end} {is_free}");
            }
        }
    });
}

#[test]
fn a_blocked_verb_is_answered_in_time_and_nothing_stale_is_carried_out() {
    play(async || {
        const TIMEOUT: Duration = Duration::from_millis(500);
        const STATE: &str = "SELECT (SELECT count(*) FROM locks.tenure_line) * 1000000 + \
             (SELECT sum(version) FROM locks.tenure_line) * 10000 + \
             (SELECT sum(value) FROM locks.tenure_sequence) * 100 + (SELECT sum(value) FROM locks.tenure_count)";
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

        let mut stranger = Stranger::of(&server).await;
        let lock = "BEGIN; SELECT 1 FROM locks.tenure_line FOR UPDATE; SELECT 1 FROM locks.tenure_sequence FOR UPDATE; \
             SELECT 1 FROM locks.tenure_count FOR UPDATE; SELECT 1 FROM locks.tenure_value FOR UPDATE";
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
        // The requests that came during a step went together into the next, which ends when its own
        // time is over.
        tokio::time::sleep(within).await;
        until("only the stranger's transaction is open", async || transactions(&server).await == 1)
            .await;
        stranger.sql("ROLLBACK").await;
        tokio::time::sleep(within * 2).await;
        assert_eq!(number(&server, STATE), before, "a stale verb was carried out");
        assert_eq!(server.sql("SELECT value FROM locks.tenure_value").unwrap(), "a");
    });
}
