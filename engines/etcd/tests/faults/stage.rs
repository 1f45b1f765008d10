//! Helpers of these tests: a cluster for each test, and requests to a member.

use std::time::Duration;

use tenure_conformance::fault::stage;
pub(super) use tenure_conformance::fault::stage::{PATIENCE, at_last, soon, until, until_line};
use tenure_core::Locks;
use tenure_servers::etcd::{Cluster, ETCD, ETCDCTL};
use tenure_servers::{Store as _, have};

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
    stage::play(story(cluster));
}

/// Connects a client.
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
