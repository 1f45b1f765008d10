//! Backends are terminated in the middle of their statements.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tenure_conformance::fault::stories::exclusion;
use tenure_core::{Locks, OnceOutcome};
use tenure_servers::postgres::Server;

use super::stage::{LONG, Stranger, again, connect, connections, play, soon, until, until_line};

const TERMINATE: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
     WHERE application_name = 'tenure'";

/// Runs a verb behind a stranger's lock, and terminates its backend while it waits, three times.
async fn interrupted<T: Send + 'static>(
    server: &Server,
    table: &str,
    verb: impl Future<Output = T> + Send + 'static,
) -> T {
    let (stranger, gremlin) = (Stranger::of(server).await, Stranger::of(server).await);
    stranger.sql(&format!("BEGIN; SELECT FROM tenure.{table} FOR UPDATE")).await;
    let verb = tokio::spawn(verb);
    let waits = format!("{TERMINATE} AND wait_event_type = 'Lock'");
    for _ in 0..3 {
        until("a backend waits, and is terminated", async || {
            gremlin.count(&waits).await > 0 || verb.is_finished()
        })
        .await;
    }
    stranger.sql("ROLLBACK").await;
    soon("the verb is answered", verb).await.unwrap()
}

#[test]
fn each_verb_comes_through_when_its_backend_is_terminated() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(format!("{}?timeout=60s", server.url())).await;
        let mutex = locks.mutex("a").ttl(LONG);
        mutex.lock().await.unwrap().release().await.unwrap();
        let guard = interrupted(&server, "line", mutex.lock()).await.unwrap();
        assert_eq!(locks.line("a").await.unwrap().len(), 1);
        let handle = guard.handle();
        interrupted(&server, "line", async move { handle.extend().await }).await.unwrap();
        interrupted(&server, "line", guard.release()).await.unwrap();
        assert!(locks.line("a").await.unwrap().is_empty());
        for window in [false, true] {
            let locks = locks.clone();
            let add = move || {
                let locks = locks.clone();
                async move {
                    if window {
                        // It would count twice if it were repeated, so it returns the error.
                        let counter = locks.counter("c").window(LONG);
                        return again(|| counter.add(1)).await.value;
                    }
                    locks.sequence("s").next().await.unwrap()
                }
            };
            assert_eq!(add().await, 1);
            let table = if window { "count" } else { "sequence" };
            assert!(interrupted(&server, table, add()).await >= 2);
        }
        let ran = locks.once("o").slot("1").run(async |_, _| Ok::<_, ()>(())).await.unwrap();
        assert!(matches!(ran, OnceOutcome::Done(())), "{ran:?}");
        let once = locks.once("o");
        let ran = interrupted(&server, "value", async move {
            once.slot("2").run(async |_, _| Ok::<_, ()>(())).await
        });
        let ran = ran.await.unwrap();
        assert!(matches!(ran, OnceOutcome::Done(())), "{ran:?}");
    });
}

/// A waiter whose notice is lost with five connections is served at its next renewal, which comes
/// after a third of this.
const TTL: Duration = Duration::from_secs(120);

/// Takes, renews and releases a lock, and counts, until the story is over. Returns the number of
/// rounds. Each verb comes through, or returns an error that may be retried.
async fn work(locks: Locks, at: usize, is_over: Arc<AtomicBool>, newest: Arc<AtomicU64>) -> u64 {
    let mut rounds = 0;
    let mutex = locks.mutex(format!("k{}", at % 3)).ttl(TTL);
    while !is_over.load(Ordering::Relaxed) {
        let guard = again(|| mutex.lock()).await;
        again(|| guard.extend()).await;
        again(|| locks.line("k0")).await;
        again(|| locks.keys("")).await;
        let seen = newest.load(Ordering::SeqCst);
        let next = again(|| locks.sequence("s").next()).await;
        assert!(next > seen, "{next} was given after {seen}");
        newest.fetch_max(next, Ordering::SeqCst);
        if let Err(error) = guard.release().await {
            assert!(error.is_retryable(), "{error}");
        }
        rounds += 1;
    }
    rounds
}

#[test]
fn all_verbs_come_through_or_are_told_while_a_gremlin_terminates_backends() {
    play(async || {
        const TERMINATIONS: usize = 60;
        let server = Server::start().unwrap();
        let (is_over, newest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(connect(server.url()).await);
        }
        let tasks = (0..9).map(|at| {
            let (is_over, newest) = (is_over.clone(), newest.clone());
            tokio::spawn(work(clients[at % 3].clone(), at / 3, is_over, newest))
        });
        let tasks: Vec<_> = tasks.collect();
        let gremlin = Stranger::of(&server).await;
        for _ in 0..TERMINATIONS {
            gremlin.count(&format!("{TERMINATE} AND state = 'active'")).await;
            gremlin.count(&format!("{TERMINATE} ORDER BY random() LIMIT 2")).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        is_over.store(true, Ordering::Relaxed);
        let mut rounds = 0;
        for task in tasks {
            rounds += soon("the task ends", task).await.unwrap();
        }
        println!("{rounds} rounds through {TERMINATIONS} terminations");
        assert!(rounds > 0);
        // A join without an answer keeps `flush` waiting until its ttl is over, so only the lines
        // are awaited.
        for at in 0..3 {
            until_line(&clients[0], &format!("k{at}"), 0).await;
        }
        assert_eq!(connections(&server, "idle in transaction"), 0);
    });
}

#[test]
fn no_two_hold_while_a_gremlin_terminates_backends() {
    play(async || {
        let server = Server::start().unwrap();
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(connect(server.url()).await);
        }
        exclusion::no_two_hold(clients, Duration::from_secs(2), async || {
            let gremlin = Stranger::of(&server).await;
            for _ in 0..40 {
                gremlin.count(&format!("{TERMINATE} ORDER BY random() LIMIT 2")).await;
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
        })
        .await;
    });
}
