//! Verbs of many tasks share one call, and each verb has its own result.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tenure_conformance::fault::{Act, Match};
use tenure_core::{
    Engine as _, ErrorKind, LeaveMode, LeaveOutcome, Locks, MutexGuard, Ticket, TicketState,
    WaitMode,
};
use tenure_servers::redis::Server;
use tokio::task::JoinSet;

use super::stage::{
    LONG, ask, assert_refused, connect, play, proxy_to, script_calls, soon, store, ticket, until,
};

const TASKS: usize = 64;
const TURNS: usize = 30;
/// Interval of `SCRIPT FLUSH`: frequent, but a loaded script stays known for this time.
const FORGETS_EVERY: Duration = Duration::from_millis(20);
/// The signs of a bundle that begins with joins.
const JOINS: &str = "\r\nJJ";

#[test]
fn what_many_tasks_want_at_once_takes_few_calls() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let before = script_calls(&server);
        take_turns(&locks, TASKS).await;
        let (verbs, calls) = ((2 * TASKS * TURNS) as u64, script_calls(&server) - before);
        println!("{verbs} verbs took {calls} calls");
        assert!(calls * 2 < verbs, "{calls} calls for {verbs} verbs");
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}

#[test]
fn in_a_bundle_no_two_get_the_same_key() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        take_turns(&locks, TASKS / 4).await;
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}

#[test]
fn a_server_that_forgets_its_scripts_is_told_them_again_by_a_bundle() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let done = AtomicBool::new(false);
        let forget = async {
            while !done.load(Ordering::Relaxed) {
                ask(&server, "SCRIPT FLUSH");
                tokio::time::sleep(FORGETS_EVERY).await;
            }
        };
        let work = async {
            take_turns(&locks, TASKS).await;
            done.store(true, Ordering::Relaxed);
        };
        tokio::join!(work, forget);
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}

#[test]
fn a_full_server_refuses_each_that_is_new_and_keeps_each_that_it_has() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let lock = |key: String| {
            let mutex = locks.mutex(key).ttl(LONG);
            async move { mutex.lock().await }
        };
        let names = |kind: &'static str| (0..TASKS).map(move |task| format!("{kind} {task}"));
        let guards: Vec<_> = join_all(names("old").map(lock)).await.into_iter().flatten().collect();
        assert_eq!(guards.len(), TASKS);
        ask(&server, "CONFIG SET maxmemory 1mb");
        for refused in join_all(names("new").map(lock)).await {
            assert_refused(refused, ErrorKind::Rejected, &["no memory left"]);
        }
        for renewed in join_all(guards.iter().map(MutexGuard::extend)).await {
            renewed.unwrap();
        }
        for released in join_all(guards.into_iter().map(MutexGuard::release)).await {
            released.unwrap();
        }
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}

#[test]
fn the_lost_answer_to_a_bundle_leaves_each_of_it_unknown_and_twice_is_once() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let own = store(&format!("redis://{}", proxy.address())).await;
        let onlooker = store(&server.url()).await;
        for act in [Act::CutBefore, Act::CutAfter] {
            let tickets: Vec<Ticket> =
                (0..TASKS).map(|task| ticket(&format!("{act:?} {task}"), LONG)).collect();
            let join = |ticket| own.join(ticket, WaitMode::Wait);
            proxy.on(Match::request_containing(JOINS), act);
            let answers = join_all(tickets.iter().map(join)).await;
            let mut unknown = 0;
            for (ticket, answer) in tickets.iter().zip(answers) {
                let line = onlooker.line(&ticket.key).await.unwrap();
                match answer {
                    Ok(place) => assert_eq!(line[0].1.number, place.unwrap().number),
                    Err(error) => {
                        assert!(error.is_retryable(), "{error}");
                        unknown += 1;
                    }
                }
            }
            // As many as had gathered by then, which may be one, and whatever else was under way.
            println!("{act:?}: {unknown} are unknown");
            assert!(unknown > 0, "a bundle was cut");
            let places = join_all(tickets.iter().map(join)).await;
            for (ticket, place) in tickets.iter().zip(places) {
                let (place, line) = (place.unwrap().unwrap(), onlooker.line(&ticket.key).await);
                assert_eq!(place.state, TicketState::Holding);
                let line = line.unwrap();
                assert_eq!((line.len(), line[0].1.number), (1, place.number));
            }
            for left in join_all(tickets.iter().map(|it| own.leave(it, LeaveMode::Now))).await {
                assert_eq!(left.unwrap(), LeaveOutcome::Holding);
            }
        }
    });
}

#[test]
fn what_is_dropped_while_it_gathers_leaves_nothing_behind() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let ttl = Duration::from_secs(2);
        for round in 0..20 {
            let given_up = (0..TASKS).map(|task| {
                let mutex = locks.mutex(format!("{task}")).ttl(ttl);
                let patience = Duration::from_micros(50 * round);
                async move { drop(tokio::time::timeout(patience, mutex.lock()).await) }
            });
            join_all(given_up).await;
        }
        soon("all are given back", locks.flush()).await;
        until("nobody is in any line", async || locks.keys("").await.unwrap().is_empty()).await;
    });
}

/// Runs all tasks, each of which takes its turns at one of `keys` locks. Checks that no two tasks
/// are inside one lock and that every token is new.
async fn take_turns(locks: &Locks, keys: usize) {
    let inside: Arc<Vec<Mutex<u64>>> = Arc::new((0..keys).map(|_| Mutex::default()).collect());
    let turns = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (locks, inside, turns) = (locks.clone(), inside.clone(), turns.clone());
        tasks.spawn(async move {
            let mutex = locks.mutex(format!("key {}", task % keys)).ttl(LONG);
            for _ in 0..TURNS {
                let guard = mutex.lock().await.unwrap();
                {
                    let mut newest = inside[task % keys].try_lock().expect("nobody else is inside");
                    assert!(guard.token().get() > *newest, "{} after {newest}", guard.token());
                    *newest = guard.token().get();
                }
                tokio::task::yield_now().await;
                guard.release().await.unwrap();
                turns.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    soon("all have had their turns", tasks.join_all()).await;
    assert_eq!(turns.load(Ordering::Relaxed), (TASKS * TURNS) as u64);
}
