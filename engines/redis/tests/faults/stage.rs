//! Helpers of these tests: servers, clients, and requests to a server.

use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tenure_conformance::fault::stage;
pub(super) use tenure_conformance::fault::stage::{
    PATIENCE, soon, until, until_line, until_renewed,
};
use tenure_conformance::fault::{Protocol, Proxy};
use tenure_core::{ErrorKind, Key, Locks, Note, Owner, Result, Share, Ticket, TicketId};
use tenure_redis::{RedisCluster, RedisStore};
use tenure_servers::redis::{Client, Cluster, REDIS, Reply, Server};
use tenure_servers::{Tool, have};

/// A ttl of which no heartbeat falls into a test, so that no heartbeat causes its events.
pub(super) const LONG: Duration = Duration::from_secs(24 * 3600);

/// Plays a story that needs a Redis, if there is one here.
pub(super) fn play(story: impl AsyncFnOnce()) {
    play_with(&[], story);
}

/// The same for a test that needs these tools, too.
pub(super) fn play_with(tools: &[Tool], story: impl AsyncFnOnce()) {
    if !have(&[&[REDIS], tools].concat()) {
        return;
    }
    stage::play(story());
}

/// Connects to the locks at this URL.
pub(super) async fn connect(url: impl AsRef<str>) -> Locks {
    tenure_redis::connect(url).await.expect("the server can be reached")
}

/// The same with short timeouts: a busy machine may need several attempts.
pub(super) async fn connect_at_last(url: impl AsRef<str>) -> Locks {
    soon("the server can be reached", async {
        loop {
            if let Ok(locks) = tenure_redis::connect(url.as_ref()).await {
                return locks;
            }
        }
    })
    .await
}

/// Returns a proxy to this server that can inject faults.
pub(super) fn proxy_to(server: &Server) -> Proxy {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
    Proxy::to(server).unwrap().speaking(Protocol::Resp)
}

/// Opens the engine itself on the test's runtime, so that all calls go through one connection.
pub(super) async fn store(url: &str) -> RedisStore {
    RedisStore::open(url).await.expect("the server can be reached")
}

/// The same for a cluster.
pub(super) async fn cluster_store(url: &str) -> RedisCluster {
    RedisCluster::open(url).await.expect("the cluster can be reached")
}

/// Makes the servers of a cluster announce this port for one of its masters.
pub(super) async fn tell_clients_of(cluster: &Cluster, owner: &Server, port: u16) {
    owner.command(&["CONFIG", "SET", "cluster-announce-port", &port.to_string()]).unwrap();
    until("all nodes tell clients of the way", async || {
        let nodes = cluster.nodes().iter().filter(|node| node.port() != owner.port());
        let mut masters = nodes.take(2);
        masters.all(|node| {
            let shown = node.command(&["CLUSTER", "NODES"]).unwrap().text().unwrap();
            shown.contains(&format!("127.0.0.1:{port}@"))
        })
    })
    .await;
}

/// Returns a ticket for the whole of this key.
pub(super) fn ticket(key: &str, ttl: Duration) -> Ticket {
    Ticket {
        id: TicketId::fresh(),
        key: Key::new(key).unwrap(),
        share: Share::WHOLE,
        ttl,
        owner: Owner::shortened("a test"),
        note: Note::default(),
        floor: 0,
    }
}

/// Asks the server something that no lock has to do with, in words with blanks between them.
pub(super) fn ask(server: &Server, words: &str) -> Reply {
    server.command(&words.split(' ').collect::<Vec<_>>()).unwrap()
}

/// Returns the number of script calls that the server has had.
pub(super) fn script_calls(server: &Server) -> u64 {
    calls(server, "evalsha")
}

/// Returns the number of calls of this command, by clients and by scripts.
pub(super) fn calls(server: &Server, command: &str) -> u64 {
    let stats = ask(server, "INFO commandstats");
    let Ok(calls) = stats.field(&format!("cmdstat_{command}")) else { return 0 };
    let calls = calls.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
    calls.unwrap().parse().unwrap()
}

/// Returns the number of connections of this server, without the one that asks.
pub(super) fn connections(server: &Server) -> usize {
    let mut client = server.client().unwrap();
    let list = client.command(&["CLIENT", "LIST"]).unwrap().text().unwrap();
    list.lines().filter(|line| !line.contains(" cmd=client")).count()
}

/// Returns the names of all keys, in order.
pub(super) fn all_keys(client: &mut Client) -> Vec<String> {
    let keys = client.command(&["KEYS", "*"]).unwrap();
    let mut keys: Vec<_> = keys.list().unwrap().iter().map(|key| key.text().unwrap()).collect();
    keys.sort();
    keys
}

/// Returns the name of a line's head on the server.
pub(super) fn head(key: &str) -> String {
    format!("tenure:{{{}}}", Key::new(key).unwrap().canonical("tenure"))
}

/// Asserts an error of this kind whose message is one line with all of these parts.
#[track_caller]
pub(super) fn assert_refused<T: Debug>(answer: Result<T>, kind: ErrorKind, parts: &[&str]) {
    let error = answer.unwrap_err();
    let sentence = error.to_string();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(!sentence.contains('\n') && !sentence.is_empty(), "{sentence}");
    for part in parts {
        assert!(sentence.contains(part), "`{part}` is not in: {sentence}");
    }
}
