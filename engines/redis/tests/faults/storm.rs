//! Connections: few are made, whatever a server does to them, and each says little until it is asked for more.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_conformance::fault::{Act, Match};
use tenure_core::Locks;
use tenure_redis::RedLock;
use tenure_servers::redis::{Server, Setup};
use tokio::task::JoinSet;

use super::stage::{LONG, ask, connect, play, proxy_to, until};

const TASKS: usize = 16;
const STORM: Duration = Duration::from_secs(5);
/// What a client may do at once, when all was well before.
const AT_ONCE_MAX: u64 = 8;
const EACH_SECOND_MAX: u64 = 4;

/// Uses the locks from many tasks for a while, whatever comes of it; says how long that was.
async fn use_for_a_while(locks: &Locks) -> Duration {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let locks = locks.clone();
        tasks.spawn(async move {
            while began.elapsed() < STORM {
                let mutex = locks.mutex(format!("key {task}"));
                // Whoever is impatient asks more often.
                let lock = tokio::time::timeout(Duration::from_millis(20), mutex.lock()).await;
                if let Ok(Ok(guard)) = lock {
                    let _unknown = guard.release().await;
                }
                tokio::task::yield_now().await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    began.elapsed()
}

#[track_caller]
fn assert_few(connections: u64, within: Duration) {
    println!("{connections} connections in {within:?}");
    let most = AT_ONCE_MAX + EACH_SECOND_MAX * (within.as_secs() + 1);
    assert!(connections <= most, "{connections} connections in {within:?}, and {most} are many");
}

#[test]
fn a_server_that_accepts_and_closes_sees_few_connections() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let locks = connect(format!("redis://{}", proxy.address())).await;
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        // From here on, whoever is let in is turned out as soon as it says something.
        server.kill().unwrap();
        let before = proxy.counts().connections;
        let within = use_for_a_while(&locks).await;
        assert_few(proxy.counts().connections - before, within);
    });
}

#[test]
fn a_node_of_three_that_accepts_and_closes_sees_few_connections() {
    play(async || {
        let trusted = Setup::new();
        let (one, two) = (trusted.clone().start().unwrap(), trusted.start().unwrap());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU64::new(0)));
        let counted = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                drop(stream);
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let at = |port| format!("127.0.0.1:{port}");
        let hosts = [at(one.port()), at(two.port()), at(port)].join(",");
        let redlock = RedLock::open(format!("redlock://{hosts}?young=trust")).await.unwrap();
        let before = seen.load(Ordering::Relaxed);
        let within = use_for_a_while(redlock.locks()).await;
        assert_few(seen.load(Ordering::Relaxed) - before, within);
    });
}

#[test]
fn a_server_that_turns_out_whoever_asks_for_a_lock_sees_few_connections() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let locks = connect(format!("redis://{}", proxy.address())).await;
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        for nth in 1..=1000 {
            proxy.on(Match::request_containing("EVALSHA").nth(nth), Act::CutBefore);
        }
        let before = proxy.counts().connections;
        let within = use_for_a_while(&locks).await;
        assert_few(proxy.counts().connections - before, within);
    });
}

#[test]
fn a_connection_is_made_without_the_scripts_and_a_server_that_lacks_them_is_told_once() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let url = format!("redis://{}", proxy.address());
        let first = connect(&url).await;
        first.mutex("a").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        let all = proxy.counts().of("SCRIPT");
        assert!(all > 0, "a server that knew none was told the scripts");
        proxy.reset_counts();
        let second = connect(&url).await;
        second.mutex("a").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        for _ in 0..3 {
            proxy.cut();
            until("it is there again", async || {
                first.mutex("b").lock().await.is_ok() && second.mutex("b").lock().await.is_ok()
            })
            .await;
        }
        let counts = proxy.counts();
        let (bytes, made) = (counts.bytes_to_server, counts.connections);
        println!("{made} connections said {bytes} bytes");
        assert_eq!(counts.of("SCRIPT"), 0, "a server that knows the scripts is told them");
        // Many find out at the same time.
        proxy.reset_counts();
        ask(&server, "SCRIPT FLUSH");
        let mut tasks = JoinSet::new();
        for task in 0..TASKS * 8 {
            let mutex = first.mutex(format!("key {task}")).ttl(LONG);
            tasks.spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let loads = proxy.counts().of("SCRIPT");
        println!("{} tasks told {loads} scripts", TASKS * 8);
        // Once on each of its connections.
        assert!(loads <= 2 * all, "{loads} scripts were told after one flush, and there are {all}");
    });
}
