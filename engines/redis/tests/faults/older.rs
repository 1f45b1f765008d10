//! A server that comes back with older data: from a snapshot, from a log without its end, or as a
//! replica that lagged behind. Locks may be lost with the data, but a token is above every earlier
//! one.

use std::fs;
use std::future::ready;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_conformance::Arena;
use tenure_core::layers::{Retries, Retry};
use tenure_core::{ErrorKind, Locks, MutexGuard, Result, ThisRuntime};
use tenure_redis::RedisStore;
use tenure_servers::have;
use tenure_servers::redis::{Cluster, REDIS, Sentinels, Server, Setup};
use tokio::task::JoinSet;

use super::stage::{LONG, ask, assert_refused, connect, head, play, soon, until};

/// Tokens that are given after the snapshot, so that the restored data does not have them.
const FORGOTTEN: u32 = 20;

/// Takes the lock, even where the server has only just come back, and gives it back.
async fn token(locks: &Locks, key: &str) -> u64 {
    soon("the lock is given", async {
        loop {
            let asked: Result<MutexGuard> = locks.mutex(key).ttl(LONG).lock().await;
            match asked {
                Ok(guard) => {
                    let token = guard.token().get();
                    // The server's data may be older than the lock, so the release may fail.
                    let _ = guard.release().await;
                    return token;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    })
    .await
}

/// Takes `FORGOTTEN` tokens that the restored data will not have, and returns the newest.
async fn tokens(locks: &Locks, key: &str) -> u64 {
    let mut newest = 0;
    for _ in 0..FORGOTTEN {
        let next = token(locks, key).await;
        assert!(next > newest);
        newest = next;
    }
    newest
}

/// Asserts that the next tokens are above this one, for all clients.
async fn expect_above(newest: u64, key: &str, all: &[&Locks]) {
    let mut newest = newest;
    for locks in all.iter().chain(all) {
        let next = token(locks, key).await;
        assert!(next > newest, "{next} is not above {newest}");
        newest = next;
    }
}

/// Copies the files that are there now into an empty folder.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[test]
fn tokens_grow_over_a_restart_from_a_snapshot() {
    play(async || {
        let server = Server::start().unwrap();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        // One line of each kind: idle, a holder alone, and a holder with a waiter.
        tokens(&locks, "idle").await;
        let alone = locks.mutex("alone").ttl(LONG).lock().await.unwrap();
        let first = locks.mutex("full").ttl(LONG).lock().await.unwrap();
        let second = tokio::spawn({
            let mutex = other.mutex("full").ttl(LONG);
            async move { mutex.lock().await }
        });
        super::stage::until_line(&locks, "full", 2).await;
        ask(&server, "SAVE");
        alone.release().await.unwrap();
        first.release().await.unwrap();
        soon("it is served", second).await.unwrap().unwrap().release().await.unwrap();
        let mut newest = Vec::new();
        for key in ["idle", "alone", "full"] {
            newest.push((key, tokens(&locks, key).await));
        }
        server.kill().unwrap();
        server.restart().unwrap();
        for (key, newest) in newest {
            // The tickets of the snapshot have all left before the server died.
            empty(&locks, key).await;
            expect_above(newest, key, &[&locks, &other]).await;
        }
    });
}

/// Runs the suite's case of the same story on the engine itself.
#[test]
fn numbers_grow_in_the_suite_over_a_restart_from_a_snapshot() {
    if !have(&[REDIS]) {
        return;
    }
    tenure_conformance::play(
        "numbers::numbers_grow_when_the_store_comes_back_with_older_data",
        async || {
            let server = Arc::new(Server::start().unwrap());
            let (url, saved, restarted) = (server.url(), server.clone(), server.clone());
            let open = move || {
                let url = url.clone();
                async move {
                    // The first call after the restart finds that the connection has ended.
                    let (store, host) = (RedisStore::open(&url).await?, ThisRuntime::new());
                    Ok(Retry::new(store, Arc::new(host), Retries::times(8)))
                }
            };
            let save = move || {
                ask(&saved, "SAVE");
                ready(())
            };
            let restart = move || {
                restarted.kill().and_then(|()| restarted.restart()).unwrap();
                ready(())
            };
            Arena::hosted(open).with_past(save, restart).keeping(server)
        },
    );
}

#[test]
fn a_ticket_that_stands_behind_older_data_has_a_newer_token() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let holder = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        ask(&server, "SAVE");
        holder.release().await.unwrap();
        let newest = tokens(&locks, "a").await;
        server.kill().unwrap();
        server.restart().unwrap();
        // The holder of the snapshot is in the way, and the next one is given a number behind it.
        let waiter = tokio::spawn({
            let locks = locks.clone();
            async move { token(&locks, "a").await }
        });
        until("it waits", async || locks.line("a").await.is_ok_and(|line| line.len() == 2)).await;
        let gone = locks.line("a").await.unwrap()[0].id;
        locks.force_unlock("a", gone).await.unwrap();
        let next = soon("the waiter is served", waiter).await.unwrap();
        assert!(next > newest, "{next} is not above {newest}");
    });
}

#[test]
fn tokens_of_bundles_grow_over_a_restart_from_a_snapshot() {
    play(async || {
        const TASKS: usize = 64;
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let newest: Arc<Vec<AtomicU64>> = Arc::new((0..TASKS).map(|_| AtomicU64::new(0)).collect());
        let all = async || {
            let mut tasks = JoinSet::new();
            for task in 0..TASKS {
                let (locks, newest) = (locks.clone(), newest.clone());
                tasks.spawn(async move {
                    for _ in 0..FORGOTTEN {
                        let next = token(&locks, &format!("lock {task}")).await;
                        let before = newest[task].swap(next, Ordering::Relaxed);
                        assert!(next > before, "{next} is not above {before}");
                    }
                });
            }
            soon("all had their turns", async {
                while let Some(task) = tasks.join_next().await {
                    task.unwrap();
                }
            })
            .await;
        };
        all().await;
        ask(&server, "SAVE");
        all().await;
        server.kill().unwrap();
        server.restart().unwrap();
        all().await;
    });
}

#[test]
fn tokens_grow_over_a_restart_that_lost_the_end_of_the_log() {
    play(async || {
        let setup = Setup::new().setting(&["appendonly", "yes"]);
        let server = setup.setting(&["appendfsync", "everysec"]).start().unwrap();
        let locks = connect(server.url()).await;
        tokens(&locks, "a").await;
        // This much was on the disk when the power went: what came in the second after it was not.
        let (log, on_disk) = (server.folder().join("appendonlydir"), server.folder().join("disk"));
        until("the log has a lock", async || {
            let parts = fs::read_dir(&log).unwrap().map(|part| part.unwrap().metadata().unwrap());
            parts.map(|part| part.len()).max().unwrap() > 1000
        })
        .await;
        copy(&log, &on_disk);
        let newest = tokens(&locks, "a").await;
        server.kill().unwrap();
        fs::remove_dir_all(&log).unwrap();
        copy(&on_disk, &log);
        server.restart().unwrap();
        empty(&locks, "a").await;
        expect_above(newest, "a", &[&locks]).await;
    });
}

#[test]
fn tokens_grow_when_a_replica_that_lagged_takes_over() {
    play(async || {
        let set = Sentinels::start().unwrap();
        let [master, replica] = set.servers() else { panic!("there are two") };
        let (locks, other) = (connect(set.url()).await, connect(set.url()).await);
        tokens(&locks, "a").await;
        let newest = lag(master, replica, async || tokens(&locks, "a").await).await;
        set.next_master(master).unwrap();
        empty(&locks, "a").await;
        expect_above(newest, "a", &[&locks, &other]).await;
    });
}

#[test]
fn tokens_grow_when_a_replica_of_a_cluster_that_lagged_takes_over() {
    play(async || {
        let cluster = Cluster::with_replicas(1).unwrap();
        let (locks, other) = (connect(cluster.url()).await, connect(cluster.url()).await);
        let slot = cluster.slot_of(&head("a")).unwrap();
        let master = cluster.owner_of(slot).unwrap();
        let follows = format!("master_port:{}", master.port());
        let is_replica =
            |node: &&Server| ask(node, "INFO replication").text().unwrap().contains(&follows);
        let replica = cluster.nodes().iter().find(is_replica).unwrap();
        tokens(&locks, "a").await;
        let newest = lag(master, replica, async || tokens(&locks, "a").await).await;
        cluster.next_owner(slot, master).unwrap();
        empty(&locks, "a").await;
        expect_above(newest, "a", &[&locks, &other]).await;
    });
}

/// A connection may be older than the tokens that another master gave while this server was a
/// replica.
#[test]
fn tokens_grow_on_a_connection_that_outlives_a_time_as_a_replica() {
    play(async || {
        let first = Server::start().unwrap();
        let second = Setup::new().replica_of(&first).start().unwrap();
        let stays = connect(first.url()).await;
        tokens(&stays, "a").await;
        ask(&first, "WAIT 1 5000");
        ask(&second, "REPLICAOF NO ONE");
        ask(&first, &format!("REPLICAOF 127.0.0.1 {}", second.port()));
        until("it follows", async || {
            ask(&first, "INFO replication").field("master_link_status").unwrap() == "up"
        })
        .await;
        let elsewhere = connect(second.url()).await;
        tokens(&elsewhere, "a").await;
        let newest = lag(&second, &first, async || tokens(&elsewhere, "a").await).await;
        ask(&first, "REPLICAOF NO ONE");
        empty(&stays, "a").await;
        expect_above(newest, "a", &[&stays]).await;
    });
}

/// A sequence has no clock to go by: what its replicas do not have is given twice.
#[test]
fn a_number_of_a_sequence_counts_once_replicas_have_it() {
    play(async || {
        let master = Server::start().unwrap();
        let replica = Setup::new().replica_of(&master).start().unwrap();
        let locks = connect(format!("{}?acks=1&timeout=1s", master.url())).await;
        let mut newest = 0;
        for _ in 0..FORGOTTEN {
            newest = locks.sequence("a").next().await.unwrap();
        }
        replica.freeze().unwrap();
        let unsure = locks.sequence("a").next().await;
        assert_refused(unsure, ErrorKind::Unavailable, &["of the 1 required replicas"]);
        assert!(locks.sequence("a").last().await.unwrap() >= newest, "a look asks for nothing");
        master.kill().unwrap();
        replica.thaw().unwrap();
        ask(&replica, "REPLICAOF NO ONE");
        let other = connect(replica.url()).await;
        assert!(other.sequence("a").next().await.unwrap() > newest);
    });
}

/// The master gives tokens that the replica does not receive, and dies. Returns the newest token.
async fn lag(master: &Server, replica: &Server, gives: impl AsyncFnOnce() -> u64) -> u64 {
    ask(master, "WAIT 1 5000");
    replica.freeze().unwrap();
    ask(master, "CLIENT KILL TYPE replica");
    let newest = gives().await;
    master.kill().unwrap();
    replica.thaw().unwrap();
    newest
}

/// Removes all tickets of the line as soon as a server can.
async fn empty(locks: &Locks, key: &str) {
    until("nobody is in the line", async || {
        let Ok(line) = locks.line(key).await else { return false };
        for ticket in &line {
            if let Err(error) = locks.force_unlock(key, ticket.id).await {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            }
        }
        line.is_empty()
    })
    .await;
}
