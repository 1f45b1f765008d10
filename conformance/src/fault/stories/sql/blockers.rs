//! A stranger's transaction has the row of a line while a verb needs it.

use std::time::{Duration, Instant};

use tenure_core::layers::AnyEngine;
use tenure_core::{
    Engine as _, ErrorKind, LeaveMode, LeaveOutcome, Result, TicketState, WaitMode, Window,
};

use super::{LONG, SqlServer, SqlSession as _, column, connect, key, number, table, ticket};
use crate::fault::stage::{PATIENCE, at_last, soon, until};

const ENDS: [&str; 2] = ["COMMIT", "ROLLBACK"];
const WINDOW: Option<Window> = Some(Window { per: LONG, limit: None });

/// Runs a verb while a stranger's transaction has executed `statement`. The transaction ends after
/// the verb has waited for the row, and after `before_end`.
pub async fn behind<T: Send + 'static>(
    server: &impl SqlServer,
    (statement, end): (&str, &str),
    verb: impl Future<Output = Result<T>> + Send + 'static,
    before_end: impl AsyncFnOnce(),
) -> T {
    let mut stranger = server.stranger().await;
    stranger.sql(&format!("BEGIN; {statement}")).await;
    let before = server.row_waits();
    let verb = tokio::spawn(verb);
    until("the verb waits", async || server.row_waits() > before || verb.is_finished()).await;
    assert!(!verb.is_finished(), "the verb did not wait for: {statement}");
    before_end().await;
    stranger.sql(end).await;
    soon("the verb is answered", verb).await.unwrap().unwrap()
}

/// Deletes all records of lines.
fn delete_lines<S: SqlServer>(server: &S) {
    server.sql(&format!("DELETE FROM {}", table::<S>("line")));
}

/// Locks the row of `a`.
fn lock_a<S: SqlServer>() -> String {
    let (line, key) = (table::<S>("line"), column::<S>("key"));
    format!("SELECT 1 FROM {line} WHERE {key} = 'a' FOR UPDATE")
}

/// Waits until the last ticket of `a` has expired.
pub async fn until_a_expires<S: SqlServer>(server: &S) {
    let (line, key, now_us) = (table::<S>("line"), column::<S>("key"), S::NOW_US);
    let query = format!("SELECT count(*) FROM {line} WHERE {key} = 'a' AND ends_us < {now_us}");
    until("the lease ends", async || number(server, &query) == 1).await;
}

/// An engine that waits for a blocked row as long as the story needs.
async fn patient<S: SqlServer>(server: &S) -> AnyEngine {
    S::engine(&format!("{}?timeout=60s", server.url())).await
}

/// Join, renewal and leave see what a stranger committed, or nothing of what it rolled back.
pub async fn each_verb_of_a_line_decides_on_the_record_that_a_blocker_leaves<S: SqlServer>(
    server: &S,
) {
    let engine = patient(server).await;
    let (line, key_column, last) = (table::<S>("line"), column::<S>("key"), column::<S>("last"));
    let insert_a = format!(
        "INSERT INTO {line} SELECT 'a', version, at_us, {last}, holder, ends_us, tickets, \
         longest_us FROM {line} WHERE {key_column} = 'b'"
    );
    let b = ticket("b", LONG);
    for end in ENDS {
        let is_taken = end == "COMMIT";
        let fresh = async |is_new: bool| {
            delete_lines(server);
            let a = ticket("a", LONG);
            if !is_new {
                engine.join(&a, WaitMode::NoWait).await.unwrap().expect("it is free");
            }
            engine.join(&b, WaitMode::NoWait).await.unwrap().expect("it is free");
            a
        };
        for (is_new, statement) in [(true, &*insert_a), (false, S::TAKE_A)] {
            for patience in [WaitMode::NoWait, WaitMode::Wait] {
                let first = fresh(is_new).await;
                if !is_new {
                    engine.leave(&first, LeaveMode::Now).await.unwrap();
                }
                let (own, a) = (engine.clone(), ticket("a", LONG));
                let joins = async move { own.join(&a, patience).await };
                let place = behind(server, (statement, end), joins, async || {}).await;
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
        let place = behind(server, (S::TAKE_A, end), renews, async || {
            let line = engine.line(&key("a")).await.unwrap();
            assert_ne!(line[0].0.id, b.id, "the line is read as it was committed");
        });
        assert_eq!(place.await.is_none(), is_taken, "{end}");
        let line = engine.line(&key("a")).await.unwrap();
        assert_eq!(line[0].0.id == b.id, is_taken, "{end}");

        let (own, a) = (engine.clone(), fresh(false).await);
        let leaves = async move { own.leave(&a, LeaveMode::Now).await };
        let left = behind(server, (S::TAKE_A, end), leaves, async || {}).await;
        let wanted = if is_taken { LeaveOutcome::Absent } else { LeaveOutcome::Holding };
        assert_eq!(left, wanted, "{end}");
    }
}

/// Sequences, counts and values go on from what a stranger committed.
pub async fn each_verb_on_a_number_or_value_counts_from_what_a_blocker_leaves<S: SqlServer>(
    server: &S,
) {
    let engine = patient(server).await;
    for (at, end) in ENDS.into_iter().enumerate() {
        let is_changed = end == "COMMIT";
        let name = key(&format!("k{at}"));
        let by = async |window| engine.add(&name, 1, window).await.unwrap().value;
        for (window, kind) in [(None, "sequence"), (WINDOW, "count")] {
            assert_eq!(by(window).await, 1);
            let adds = format!("UPDATE {} SET value = value + 10", table::<S>(kind));
            let (own, name) = (engine.clone(), name.clone());
            let verb = async move { own.add(&name, 1, window).await };
            let value = behind(server, (&adds, end), verb, async || {}).await;
            assert_eq!(value.value, if is_changed { 12 } else { 2 }, "{kind} {end}");
        }
        engine.swap(&name, "", "first").await.unwrap();
        let own = (engine.clone(), name.clone());
        let verb = async move { own.0.swap(&own.1, "first", "mine").await };
        let change = format!("UPDATE {} SET value = 'theirs'", table::<S>("value"));
        let value = behind(server, (&change, end), verb, async || {}).await;
        assert_eq!(value, if is_changed { "theirs" } else { "mine" }, "{end}");
    }
}

/// A lease that ends while a verb waits for the row has ended for this verb.
pub async fn no_verb_decides_on_the_time_before_its_wait<S: SqlServer>(server: &S) {
    const TTL: Duration = Duration::from_secs(2);
    let (engine, lock_a) = (patient(server).await, lock_a::<S>());
    for end in ENDS {
        let hold = async || {
            delete_lines(server);
            let a = ticket("a", TTL);
            engine.join(&a, WaitMode::NoWait).await.unwrap().expect("it is free");
            a
        };
        let expires = async || until_a_expires(server).await;
        let (own, a) = (engine.clone(), hold().await);
        let renews = async move { own.renew(&a).await };
        let renewed = behind(server, (&lock_a, end), renews, expires).await;
        assert!(renewed.is_none(), "a lease that has ended was renewed: {renewed:?}");

        let (own, a) = (engine.clone(), hold().await);
        let leaves = async move { own.leave(&a, LeaveMode::Now).await };
        let left = behind(server, (&lock_a, end), leaves, expires).await;
        assert_eq!(left, LeaveOutcome::Absent, "{end}");

        let (own, first, next) = (engine.clone(), hold().await, ticket("a", LONG));
        let joining = next.clone();
        let joins = async move { own.join(&joining, WaitMode::Wait).await };
        behind(server, (&lock_a, end), joins, expires).await.expect("it waits");
        // While the row was blocked, no further ticket was served.
        let place = engine.renew(&next).await.unwrap().expect("it is in the line");
        assert_eq!(place.state, TicketState::Holding, "{end}");
        assert!(engine.renew(&first).await.unwrap().is_none(), "{end}");
    }
}

/// Other keys of a client are locked and renewed in time.
pub async fn a_row_that_is_blocked_keeps_no_other_key_waiting<S: SqlServer>(server: &S) {
    const TTL: Duration = Duration::from_secs(6);
    const BLOCK: Duration = Duration::from_secs(10);
    let locks = connect::<S>(server.url()).await;
    let mut guards = Vec::new();
    for at in 0..20 {
        guards.push(locks.mutex(format!("k{at}")).ttl(TTL).lock().await.unwrap());
    }
    let held = locks.mutex("a").ttl(LONG).lock().await.unwrap();
    let mut stranger = server.stranger().await;
    stranger.sql(&format!("BEGIN; {}", lock_a::<S>())).await;
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
}

/// Other keys of a client are locked while a stranger has the rows of forty.
pub async fn forty_rows_that_are_blocked_keep_no_other_key_waiting<S: SqlServer>(server: &S) {
    const TAKEN: u32 = 10;
    let engine = S::engine(&server.url()).await;
    let held: Vec<_> = (0..40).map(|at| ticket(&format!("k{at}"), LONG)).collect();
    for ticket in &held {
        engine.join(ticket, WaitMode::NoWait).await.unwrap().expect("it is free");
    }
    let mut stranger = server.stranger().await;
    // Without the gaps between the rows.
    stranger.sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await;
    let (line, key) = (table::<S>("line"), column::<S>("key"));
    let lock = format!("BEGIN; SELECT 1 FROM {line} WHERE {key} LIKE 'k%' FOR UPDATE");
    stranger.sql(&lock).await;
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
    stranger.sql("ROLLBACK").await;
    for renewal in renewals {
        soon("it is renewed", renewal).await.unwrap();
    }
}

/// A verb that has failed is not carried out after the row is free.
pub async fn a_blocked_verb_is_answered_in_time_and_nothing_stale_is_carried_out<S: SqlServer>(
    server: &S,
) {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let tables = ["line", "sequence", "count", "value"].map(table::<S>);
    let [line, sequence, count, value] = &tables;
    let state = format!(
        "SELECT (SELECT count(*) FROM {line}) * 1000000 + \
         (SELECT sum(version) FROM {line}) * 10000 + (SELECT sum(value) FROM {sequence}) * 100 + \
         (SELECT sum(value) FROM {count})"
    );
    let engine = S::engine(&format!("{}?timeout=500ms", server.url())).await;
    let (free, held) = (ticket("free", LONG), ticket("held", LONG));
    let name = key("n");
    for ticket in [&free, &held] {
        at_last("it joins", async || engine.join(ticket, WaitMode::NoWait).await).await;
    }
    at_last("it leaves", async || engine.leave(&free, LeaveMode::Now).await).await;
    for window in [None, WINDOW] {
        let added = at_last("it counts", async || engine.add(&name, 1, window).await).await;
        assert!(added.allowed);
    }
    at_last("it swaps", async || engine.swap(&name, "", "a").await).await;

    let mut stranger = server.stranger().await;
    let lock = |table: &String| format!("SELECT 1 FROM {table} FOR UPDATE");
    stranger.sql(&format!("BEGIN; {}", tables.each_ref().map(lock).join("; "))).await;
    let open = server.transactions().await;
    let before = number(server, &state);
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
    until("only the stranger's transaction is open", async || server.transactions().await <= open)
        .await;
    stranger.sql("ROLLBACK").await;
    tokio::time::sleep(within * 2).await;
    assert_eq!(number(server, &state), before, "a stale verb was carried out");
    let kept = format!("SELECT count(*) FROM {value} WHERE value = 'a'");
    assert_eq!(number(server, &kept), 1);
}
