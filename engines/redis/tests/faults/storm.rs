//! Connections: a client makes few, whatever a server does to them, and sends few bytes on a new
//! one.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tenure_conformance::fault::{Act, Match};
use tenure_core::Locks;
use tenure_redis::RedLock;
use tenure_servers::redis::{Cluster, Server, Setup};
use tokio::task::JoinSet;

use super::stage::{LONG, PATIENCE, ask, connect, play, proxy_to, until};

const TASKS: usize = 16;
const STORM: Duration = Duration::from_secs(5);
/// Maximum connections of a client at once, after a time without failures.
const AT_ONCE_MAX: u64 = 8;
const EACH_SECOND_MAX: u64 = 4;

/// Uses the locks from many tasks for a while and ignores the results. Returns how long that was.
async fn use_for_a_while(locks: &Locks) -> Duration {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let locks = locks.clone();
        tasks.spawn(async move {
            while began.elapsed() < STORM {
                let mutex = locks.mutex(format!("key {task}"));
                // A caller with a short timeout asks more often.
                let lock = tokio::time::timeout(Duration::from_millis(20), mutex.lock()).await;
                if let Ok(Ok(guard)) = lock {
                    // The server closes connections, so the release may fail.
                    let _ = guard.release().await;
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

/// Accepts and closes all connections until the second result is dropped. The first result is the
/// number of connections.
fn turn_out(listener: TcpListener) -> (Arc<AtomicU64>, impl Drop) {
    /// Ends the listener's thread.
    struct End(SocketAddr, Arc<AtomicBool>, Option<JoinHandle<()>>);
    impl Drop for End {
        fn drop(&mut self) {
            self.1.store(true, Ordering::Relaxed);
            let _knock = TcpStream::connect(self.0);
            self.2.take().unwrap().join().unwrap();
        }
    }
    let (seen, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, is_over, at) = (seen.clone(), over.clone(), listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        while let Ok(stream) = listener.accept() {
            drop(stream);
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (seen, End(at, over, Some(thread)))
}

/// The same, at the port of a server that has just ended.
fn turn_out_at(port: u16) -> (Arc<AtomicU64>, impl Drop) {
    let began = Instant::now();
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return turn_out(listener),
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
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
        // From here on the proxy accepts connections and closes them after the first bytes.
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
        let port = listener.local_addr().unwrap().port();
        let (seen, _until) = turn_out(listener);
        let at = |port| format!("127.0.0.1:{port}");
        let hosts = [at(one.port()), at(two.port()), at(port)].join(",");
        let redlock =
            RedLock::open(format!("redlock://{hosts}?after_restart=trust")).await.unwrap();
        let before = seen.load(Ordering::Relaxed);
        let within = use_for_a_while(redlock.locks()).await;
        assert_few(seen.load(Ordering::Relaxed) - before, within);
    });
}

/// All servers of a cluster accept and close connections while clients ask for locks and counters.
#[test]
fn servers_of_a_cluster_that_accept_and_close_see_few_connections() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        let locks = connect(cluster.url()).await;
        let counts = async || {
            let counter = locks.counter("a").window(Duration::from_secs(60));
            counter.add(1).await.map(drop)
        };
        until("it is connected", async || counts().await.is_ok()).await;
        for node in cluster.nodes() {
            node.kill().unwrap();
        }
        let turned_out: Vec<_> =
            cluster.nodes().iter().map(|node| turn_out_at(node.port())).collect();
        let counting = async {
            let mut unanswered = 0;
            let began = Instant::now();
            while began.elapsed() < STORM {
                unanswered += u32::from(counts().await.is_err());
            }
            unanswered
        };
        let (within, unanswered) = tokio::join!(use_for_a_while(&locks), counting);
        assert!(unanswered > 0);
        for (seen, _) in &turned_out {
            assert_few(seen.load(Ordering::Relaxed), within);
        }
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
fn a_connection_is_made_without_the_scripts_and_a_server_that_lacks_them_gets_them() {
    play(async || {
        let server = Server::start().unwrap();
        // Each client has a proxy of its own. A cut may leave the other client with a pending
        // release, whose calls must not be counted with those of the many tasks.
        let (proxy, other) = (proxy_to(&server), proxy_to(&server));
        let first = connect(format!("redis://{}", proxy.address())).await;
        first.mutex("a").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        let all = proxy.counts().of("SCRIPT");
        assert!(all > 0, "a server that knew none was told the scripts");
        proxy.reset_counts();
        let second = connect(format!("redis://{}", other.address())).await;
        second.mutex("a").ttl(LONG).lock().await.unwrap().release().await.unwrap();
        let works = async |locks: &Locks| match locks.mutex("b").lock().await {
            Ok(guard) => guard.release().await.is_ok(),
            Err(_) => false,
        };
        for _ in 0..3 {
            proxy.cut();
            other.cut();
            until("it is there again", async || works(&first).await && works(&second).await).await;
        }
        for counts in [proxy.counts(), other.counts()] {
            let (bytes, made) = (counts.bytes_to_server, counts.connections);
            println!("{made} connections said {bytes} bytes");
            assert_eq!(counts.of("SCRIPT"), 0, "a server that knows the scripts is told them");
        }
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
        // On each of its two connections once, and once more for the callers that came meanwhile.
        assert!(loads <= 4 * all, "{loads} scripts were told after one flush, and there are {all}");
    });
}
