//! Take-over after a crash: the holder's process is killed, and a waiter in this process gets the
//! lock.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::Locks;
use tenure_file::FileStore;
use tenure_servers::{Store, etcd, mariadb, mongodb, postgres, redis, zookeeper};

use crate::contest::workers::workers;
use crate::figures::{Table, median, readable};

const ROLE: &str = "__crash_holder";
const KEY: &str = "crash";
const ROUNDS: usize = 3;
const TTL: Duration = Duration::from_secs(5);

/// One row for each engine that other processes can use.
pub(crate) fn run(table: &mut Table) {
    let folder = tempfile::tempdir().unwrap();
    on_store(table, "file", &format!("file:{}", folder.path().display()));
    on_server(table, "redis", redis::Server::start());
    on_server(table, "mongodb", mongodb::Server::start());
    on_server(table, "postgres", postgres::Server::start());
    on_server(table, "mariadb", mariadb::Server::start());
    on_server(table, "etcd", etcd::Cluster::of(1));
    on_server(table, "zookeeper", zookeeper::Ensemble::of(1));
}

fn on_server<S: Store>(table: &mut Table, suite: &str, server: Result<S, String>) {
    match server {
        Ok(server) => on_store(table, suite, &server.url()),
        Err(error) => table.row(suite, format!("absent: {error}"), "–", "–"),
    }
}

fn on_store(table: &mut Table, suite: &str, url: &str) {
    let runtime = workers();
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| runtime.block_on(take_over(url))).collect();
    let median = median(&mut times);
    let longest = times.last().copied().unwrap_or_default();
    let beside = format!("ttl {}; at most {}", readable(TTL), readable(longest));
    table.row(format!("{suite}: take-over after a crash"), readable(median), beside, "–");
}

/// The time from the kill of the holder to the return of the waiter's `lock`.
async fn take_over(url: &str) -> Duration {
    let program = std::env::current_exe().unwrap();
    let mut holder = Command::new(program);
    holder.args([ROLE, url]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = holder.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    let locks = Arc::new(connect(url).await);
    let waiter = tokio::spawn({
        let mutex = locks.mutex(KEY).ttl(TTL);
        async move { (mutex.lock().await.unwrap(), Instant::now()) }
    });
    while locks.line(KEY).await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    let killed = Instant::now();
    holder.kill().unwrap();
    holder.wait().unwrap();
    let (guard, held) = waiter.await.unwrap();
    guard.release().await.unwrap();
    held - killed
}

/// Holds the lock until it is killed, if this is the holder's process.
pub(crate) fn be_one(arguments: &[String]) -> bool {
    let [role, url] = arguments else { return false };
    if role != ROLE {
        return false;
    }
    let runtime = workers();
    let guard =
        runtime.block_on(async { connect(url).await.mutex(KEY).ttl(TTL).lock().await.unwrap() });
    println!("held");
    std::io::stdout().flush().unwrap();
    // The end of the standard input means that the bench ended before it killed this process.
    let _ = std::io::stdin().lines().count();
    drop(guard);
    true
}

async fn connect(url: &str) -> Locks {
    let (scheme, path) = url.split_once(':').unwrap();
    match scheme {
        "file" => Locks::new(FileStore::open(path).unwrap()),
        "redis" => tenure_redis::connect(url).await.unwrap(),
        "mongodb" => tenure_mongodb::connect(url).await.unwrap(),
        "mariadb" => tenure_mysql::connect(url).await.unwrap(),
        "postgres" => tenure_postgres::connect(url).await.unwrap(),
        "etcd" => tenure_etcd::connect(url).await.unwrap(),
        "zookeeper" => tenure_zookeeper::connect(url).await.unwrap(),
        other => panic!("{other} is no scheme of a store"),
    }
}
