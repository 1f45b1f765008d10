//! Tasks of one client that take turns at a lock while leases, space and connections are lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::{ErrorKind, Locks, Result};
use tenure_servers::etcd::Cluster;
use tokio::task::JoinSet;

use super::disks::{QUOTA_BYTES, fill, make_room};
use super::network::proxy_to;
use super::operators::leases;
use super::stage::{at_last, connect, play, play_on, soon, until_line};

const LONG: Duration = Duration::from_secs(3600);
const TASKS: u64 = 8;

/// The number of holders, which is at most 1, and the last token.
#[derive(Default)]
struct Turns {
    inside: AtomicU64,
    token: AtomicU64,
    taken: AtomicU64,
}

impl Turns {
    /// Takes one turn. Unless the guard reports that it is lost, no other holder is inside.
    async fn take(&self, locks: &Locks) -> Result<()> {
        let guard = locks.mutex("k").ttl(LONG).lock().await?;
        let others = self.inside.fetch_add(1, Ordering::SeqCst);
        let before = self.token.fetch_max(guard.token().get(), Ordering::SeqCst);
        tokio::task::yield_now().await;
        let alone = others == 0 && before < guard.token().get();
        let holds = guard.check().is_ok();
        self.inside.fetch_sub(1, Ordering::SeqCst);
        assert!(alone || !holds, "{others} others are inside, and {before} was given before");
        self.taken.fetch_add(1, Ordering::SeqCst);
        guard.release().await
    }
}

/// Starts tasks that take turns until they are stopped. The callback gets their errors.
fn begin(
    locks: &Locks,
    turns: &Arc<Turns>,
    told: impl Fn(tenure_core::Error) + Clone + Send + 'static,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (locks, turns, told) = (locks.clone(), turns.clone(), told.clone());
        tasks.spawn(async move {
            loop {
                if let Err(error) = turns.take(&locks).await {
                    told(error);
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        });
    }
    tasks
}

async fn until_taken(turns: &Turns, more: u64) {
    let until = turns.taken.load(Ordering::SeqCst) + more;
    soon("turns are taken", async {
        while turns.taken.load(Ordering::SeqCst) < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Waits until turns go on, then stops the tasks and waits until none of their tickets is left.
async fn end(tasks: JoinSet<()>, turns: &Turns, locks: &Locks) {
    until_taken(turns, 100).await;
    drop(tasks);
    until_line(locks, "k", 0).await;
}

#[test]
fn turns_go_on_while_leases_are_revoked_and_nobody_takes_one_twice() {
    play(1, async |cluster| {
        let (locks, other) = (connect(&cluster).await, connect(&cluster).await);
        let turns = Arc::new(Turns::default());
        let tasks = begin(&locks, &turns, |error| {
            assert!(error.is_retryable() || error.loss().is_some(), "{error}");
        });
        for _ in 0..10 {
            until_taken(&turns, 20).await;
            for lease in leases(&cluster) {
                // The lease may have ended already.
                let _ = cluster.ctl(&["lease", "revoke", &lease]);
            }
        }
        end(tasks, &turns, &other).await;
    });
}

#[test]
fn a_full_member_refuses_joins_and_takes_releases() {
    play_on(
        || Cluster::with_quota(QUOTA_BYTES),
        async |cluster| {
            let locks = connect(&cluster).await;
            let turns = Arc::new(Turns::default());
            let refused = Arc::new(AtomicU64::new(0));
            let tasks = begin(&locks, &turns, {
                let refused = refused.clone();
                move |error| {
                    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
                    refused.fetch_add(1, Ordering::SeqCst);
                }
            });
            until_taken(&turns, 100).await;
            fill(&cluster);
            soon("all are refused, and nobody holds", async {
                let before = refused.load(Ordering::SeqCst);
                while refused.load(Ordering::SeqCst) < before + TASKS * 3
                    || !locks.line("k").await.unwrap().is_empty()
                {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
            .await;
            make_room(&cluster);
            end(tasks, &turns, &locks).await;
        },
    );
}

#[test]
fn turns_go_on_over_connections_that_are_cut() {
    play(1, async |cluster| {
        let (proxy, other) = (proxy_to(&cluster), connect(&cluster).await);
        let url = format!("etcd://127.0.0.1:{}?timeout=500ms", proxy.port());
        let locks = at_last("it connects", async || tenure_etcd::connect(&url).await).await;
        let turns = Arc::new(Turns::default());
        let tasks = begin(&locks, &turns, |error| assert!(error.is_retryable(), "{error}"));
        for _ in 0..20 {
            until_taken(&turns, 20).await;
            proxy.cut();
        }
        end(tasks, &turns, &other).await;
    });
}
