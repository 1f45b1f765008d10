//! The stage of these stories: a runtime, patience with a limit, and what a test asks of a server.

use std::time::Duration;

use tenure_core::Locks;
use tenure_servers::etcd::{Cluster, ETCD, ETCDCTL};
use tenure_servers::{Store as _, have};

/// How long anything may take that must happen: the machine may be busy.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The shortest life that three members grant.
pub(super) const TTL: Duration = Duration::from_secs(2);

/// Plays a story on a cluster of its own, if there is etcd here.
pub(super) fn play(members: usize, story: impl AsyncFnOnce(Cluster)) {
    play_on(|| Cluster::of(members), story);
}

/// Plays a story on this cluster.
pub(super) fn play_on(
    start: impl FnOnce() -> tenure_servers::Result<Cluster>,
    story: impl AsyncFnOnce(Cluster),
) {
    if !have(&[ETCD, ETCDCTL]) {
        return;
    }
    let cluster = start().expect("the cluster starts");
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let ended = tokio::time::timeout(PATIENCE * 2, story(cluster)).await;
        ended.expect("the story ends");
    });
}

/// The locks of a client.
pub(super) async fn connect(cluster: &Cluster) -> Locks {
    let url = cluster.url();
    soon("the cluster can be reached", async {
        loop {
            if let Ok(locks) = tenure_etcd::connect(&url).await {
                return locks;
            }
        }
    })
    .await
}

/// Waits for what must happen.
pub(super) async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(PATIENCE, happens).await;
    happened.unwrap_or_else(|_| panic!("within {PATIENCE:?} this did not happen: {what}"))
}

/// Asks again for as long as the cluster does not answer.
pub(super) async fn at_last<T>(
    what: &str,
    mut ask: impl AsyncFnMut() -> tenure_core::Result<T>,
) -> T {
    soon(what, async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_unknown(), "{error}"),
            }
        }
    })
    .await
}

/// Waits until so many stand in line.
pub(super) async fn until_line(locks: &Locks, key: &str, length: usize) {
    soon("the line is so long", async {
        while locks.line(key).await.map(|line| line.len()).ok() != Some(length) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
