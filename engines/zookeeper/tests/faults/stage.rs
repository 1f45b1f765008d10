//! Helpers of these tests: an ensemble for each test, and an operator's actions.

use std::time::{Duration, Instant};

use tenure_conformance::fault::stage;
pub(super) use tenure_conformance::fault::stage::{PATIENCE, at_last, soon, until, until_line};
use tenure_core::Locks;
use tenure_servers::zookeeper::{Ensemble, JAVA, Server, ZOOKEEPER};
use tenure_servers::{Store as _, have};
use zookeeper_client::Client;

/// Four ticks.
pub(super) const TTL: Duration = Duration::from_secs(2);
/// Where the lines are.
pub(super) const LINES: &str = "/tenure/v1/t";

/// Plays a story on an ensemble of its own, if there is `ZooKeeper` here.
pub(super) fn play(servers: usize, story: impl AsyncFnOnce(Ensemble)) {
    play_on(|| Ensemble::of(servers), story);
}

/// Plays a story on this ensemble.
pub(super) fn play_on(
    start: impl FnOnce() -> tenure_servers::Result<Ensemble>,
    story: impl AsyncFnOnce(Ensemble),
) {
    if !have(&[JAVA, ZOOKEEPER]) {
        return;
    }
    let ensemble = start().expect("the ensemble starts");
    stage::play(story(ensemble));
}

/// Kills these servers, starts them again, and waits until they serve.
pub(super) fn restart(servers: &[&Server]) {
    for server in servers {
        server.kill().unwrap();
    }
    std::thread::scope(|scope| {
        for server in servers {
            scope.spawn(|| server.restart().unwrap());
        }
    });
}

/// Connects a client.
pub(super) async fn connect(ensemble: &Ensemble) -> Locks {
    let url = ensemble.url();
    at_last("the ensemble can be reached", async || tenure_zookeeper::connect(&url).await).await
}

/// Connects an operator, who uses `ZooKeeper`'s own requests.
pub(super) async fn operator(ensemble: &Ensemble) -> Client {
    let url = ensemble.url();
    let servers = url.strip_prefix("zookeeper://").unwrap();
    Client::connect(servers).await.expect("an operator connects")
}

/// Returns the paths of all tickets. A server deletes an empty line in its own time, also between
/// the two requests of this.
pub(super) async fn tickets(operator: &Client) -> Vec<String> {
    let mut paths = Vec::new();
    for line in operator.list_children(LINES).await.unwrap() {
        let path = format!("{LINES}/{line}");
        let children = match operator.list_children(&path).await {
            Err(zookeeper_client::Error::NoNode) => continue,
            children => children.unwrap(),
        };
        let mut tickets: Vec<_> = children.iter().filter(|name| name.contains('-')).collect();
        tickets.sort_by_key(|name| name.rsplit('-').next().unwrap().to_owned());
        paths.extend(tickets.into_iter().map(|name| format!("{path}/{name}")));
    }
    paths
}

/// Returns a server's answer to this word. On a busy machine the question is repeated until
/// `PATIENCE`.
pub(super) fn said(server: &Server, word: &str) -> String {
    let began = Instant::now();
    loop {
        match server.ask(word) {
            Ok(said) => return said,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
    }
}

/// Returns the last transaction of a server.
pub(super) fn zxid(server: &Server) -> String {
    let said = said(server, "srvr");
    let zxid = said.lines().find_map(|line| line.strip_prefix("Zxid: "));
    zxid.unwrap_or_else(|| panic!("it serves: {said}")).to_owned()
}

/// Returns the number of packets that a server has had.
pub(super) fn received(server: &Server) -> u64 {
    let said = said(server, "srvr");
    let count = said.lines().find_map(|line| line.strip_prefix("Received: ")).unwrap();
    count.trim().parse().unwrap()
}

/// Returns the number of ephemeral nodes.
pub(super) fn ephemerals(server: &Server) -> u64 {
    let said = said(server, "mntr");
    let count = said.lines().find_map(|line| line.strip_prefix("zk_ephemerals_count")).unwrap();
    count.trim().parse().unwrap()
}

/// Waits until there are `count` tickets. The requests cost the servers little.
pub(super) async fn until_count(operator: &Client, count: usize) {
    soon("there are so many tickets", async {
        while tickets(operator).await.len() != count {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}
