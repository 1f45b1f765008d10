//! Connections are killed and scripts forgotten, at each step and at any moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tenure_core::{ErrorKind, Locks, Loss, MutexGuard, Result};
use tenure_servers::redis::Server;
use tokio::task::{JoinHandle, JoinSet};

use super::stage::{LONG, ask, connect, play, proxy_to, script_calls, soon, until, until_line};

const KEYS: usize = 4;
const TASKS: usize = 16;
/// Duration of the disturbance.
const STORM: Duration = Duration::from_secs(3);

fn kill_all(server: &Server) {
    for kind in ["pubsub", "normal"] {
        ask(server, &format!("CLIENT KILL TYPE {kind}"));
    }
}

fn waiting(locks: &Locks) -> JoinHandle<Result<MutexGuard>> {
    let mutex = locks.mutex("a").ttl(LONG);
    tokio::spawn(async move { mutex.lock().await })
}

#[test]
fn a_connection_that_is_killed_between_two_verbs_is_made_anew() {
    play(async || {
        let server = Server::start().unwrap();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        for _ in 0..3 {
            kill_all(&server);
            let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
            kill_all(&server);
            guard.extend().await.unwrap();
            assert!(other.mutex("a").try_lock().await.unwrap().is_none());
            kill_all(&server);
            let waiter = waiting(&other);
            until_line(&locks, "a", 2).await;
            kill_all(&server);
            let token = guard.token();
            guard.release().await.unwrap();
            let next = soon("the waiter is served", waiter).await.unwrap().unwrap();
            assert!(next.token() > token);
            kill_all(&server);
            next.release().await.unwrap();
        }
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}

#[test]
fn each_kind_of_connection_may_be_killed_by_itself() {
    play(async || {
        let server = Server::start().unwrap();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        for kind in ["normal", "pubsub"] {
            let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
            let waiter = waiting(&other);
            until_line(&locks, "a", 2).await;
            let ids = ask(&server, &format!("CLIENT LIST TYPE {kind}")).text().unwrap();
            for id in ids.lines().filter(|it| !it.contains(" cmd=client")) {
                let id = id.split(' ').next().unwrap().strip_prefix("id=").unwrap();
                ask(&server, &format!("CLIENT KILL ID {id}"));
            }
            guard.release().await.unwrap();
            soon("the waiter is served", waiter).await.unwrap().unwrap().release().await.unwrap();
        }
    });
}

#[test]
fn a_waiter_whose_push_was_lost_looks_as_soon_as_it_is_connected_again() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let locks = connect(server.url()).await;
        let far = connect(format!("redis://{}", proxy.address())).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let waiter = waiting(&far);
        until_line(&locks, "a", 2).await;
        // The client has no subscription while the ticket is served, so the push reaches no
        // subscriber.
        proxy.refuse();
        proxy.cut();
        until("nobody listens", async || {
            ask(&server, "PUBSUB CHANNELS tenure:inbox:*").list().unwrap().len() == 1
        })
        .await;
        guard.release().await.unwrap();
        let before = script_calls(&server);
        proxy.heal();
        // Its next heartbeat is hours away.
        let guard = soon("the waiter looks", waiter).await.unwrap().unwrap();
        let calls = script_calls(&server) - before;
        println!("a lost push was made good by {calls} calls");
        assert!(calls <= 3, "{calls} calls");
        guard.release().await.unwrap();
    });
}

#[test]
fn a_holder_whose_push_was_lost_is_told_as_soon_as_it_is_connected_again() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let locks = connect(server.url()).await;
        let far = connect(format!("redis://{}", proxy.address())).await;
        let guard = far.mutex("a").ttl(LONG).lock().await.unwrap();
        let held = guard.handle();
        let told = tokio::spawn(async move { held.lost().await });
        proxy.refuse();
        proxy.cut();
        locks.break_ticket("a", guard.id()).await.unwrap();
        guard.check().unwrap();
        proxy.heal();
        assert_eq!(soon("it is told", told).await.unwrap(), Loss::Broken);
        drop(guard);
        drop(soon("it is free", locks.mutex("a").lock()).await.unwrap());
    });
}

/// Rooms that each admit one task at a time, with the visits and failures.
#[derive(Default)]
struct House {
    inside: [AtomicU32; KEYS],
    newest: [std::sync::atomic::AtomicU64; KEYS],
    visits: AtomicU32,
    failures: AtomicU32,
    over: AtomicBool,
}

impl House {
    async fn visit(&self, locks: &Locks, room: usize) -> Result<()> {
        let guard = locks.mutex(format!("room {room}")).ttl(Duration::from_secs(60)).lock().await?;
        assert_eq!(self.inside[room].fetch_add(1, Ordering::SeqCst), 0, "two are in one room");
        let newest = self.newest[room].swap(guard.token().get(), Ordering::SeqCst);
        assert!(guard.token().get() > newest, "{} came after {newest}", guard.token());
        tokio::task::yield_now().await;
        guard.check()?;
        assert_eq!(self.inside[room].fetch_sub(1, Ordering::SeqCst), 1, "two are in one room");
        self.visits.fetch_add(1, Ordering::Relaxed);
        guard.release().await
    }
}

/// Runs many tasks of three clients that visit `KEYS` rooms, while `disturb` runs.
async fn storm(server: Server, disturb: fn(&Server, u64)) {
    let server = Arc::new(server);
    let house = Arc::new(House::default());
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(connect(server.url()).await);
    }
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let (house, locks) = (house.clone(), clients[number % clients.len()].clone());
        tasks.spawn(async move {
            let mut round = number;
            while !house.over.load(Ordering::Relaxed) {
                round += 1;
                if let Err(error) = house.visit(&locks, round % KEYS).await {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    house.failures.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    let target = server.clone();
    let disturber = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let mut times = 0;
        while began.elapsed() < STORM {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            std::thread::sleep(Duration::from_millis(random % 60));
            disturb(&target, random);
            times += 1;
        }
        times
    });
    let times = disturber.await.unwrap();
    house.over.store(true, Ordering::Relaxed);
    soon("everybody ends", async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("nobody met anybody");
        }
    })
    .await;
    // Failed releases are repeated in the background.
    until("nothing is left", async || clients[0].keys("").await.unwrap().is_empty()).await;
    let (visits, failures) = (&house.visits, &house.failures);
    println!("{visits:?} visits and {failures:?} failures in {times} disturbances");
    assert!(visits.load(Ordering::Relaxed) > 0);
}

#[test]
fn connections_that_are_killed_at_any_moment_make_no_two_holders_and_leave_nothing() {
    play(async || {
        storm(Server::start().unwrap(), |server, random| {
            let kind = if random & 64 == 0 { "pubsub" } else { "normal" };
            ask(server, &format!("CLIENT KILL TYPE {kind}"));
        })
        .await;
    });
}

#[test]
fn scripts_that_are_forgotten_at_any_moment_are_told_again() {
    play(async || {
        storm(Server::start().unwrap(), |server, _| drop(ask(server, "SCRIPT FLUSH"))).await;
    });
}
