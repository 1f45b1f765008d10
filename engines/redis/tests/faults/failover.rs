//! Another server becomes the master while a lock is held: with and without acknowledgements.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tenure_core::{ErrorKind, Locks, Loss, MutexGuard, Result};
use tenure_fence_redis::{Fence, Stale};
use tenure_servers::redis::{Sentinels, Server};
use tokio::task::JoinHandle;

use super::stage::{PATIENCE, ask, assert_refused, connect, play, soon, until, until_line};

/// Longer than any fail-over takes.
const TTL: Duration = Duration::from_secs(60);
const BEAT: Duration = Duration::from_millis(500);

fn waiting(locks: &Locks, key: &str) -> JoinHandle<MutexGuard> {
    let mutex = locks.mutex(key).ttl(TTL).renew_every(BEAT);
    tokio::spawn(async move {
        // During a fail-over the call may fail because no server answers. It is repeated.
        loop {
            match mutex.lock().await {
                Ok(guard) => return guard,
                Err(error) => assert_ne!(error.kind(), ErrorKind::Invalid, "{error}"),
            }
        }
    })
}

async fn persistently(locks: &Locks, key: &str) -> MutexGuard {
    soon("it is given", async {
        loop {
            let asked: Result<MutexGuard> = locks.mutex(key).ttl(TTL).lock().await;
            match asked {
                Ok(guard) => return guard,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    })
    .await
}

#[test]
fn without_acknowledgements_a_fail_over_may_lose_a_lock_and_tokens_save_the_data() {
    play(async || {
        let (set, elsewhere) = (Sentinels::start().unwrap(), Server::start().unwrap());
        let [master, replica] = set.servers() else { panic!("there are two") };
        let (locks, other) = (connect(set.url()).await, connect(set.url()).await);
        assert!(!locks.guarantees().survives.failover);
        let (fence, mut data) = (Fence::new("data").unwrap(), data(&elsewhere).await);

        // The replica is frozen and cut off, so that it never receives the lock.
        replica.freeze().unwrap();
        ask(master, "CLIENT KILL TYPE replica");
        let old = locks.mutex("a").ttl(TTL).renew_every(BEAT).lock().await.unwrap();
        fence.claim(&mut data, old.token()).await.unwrap();
        master.kill().unwrap();
        replica.thaw().unwrap();
        set.next_master(master).unwrap();

        let new = persistently(&other, "a").await;
        println!("there were two holders: {}", old.check().is_ok());
        assert!(new.token() > old.token());
        fence.claim(&mut data, new.token()).await.unwrap();
        let late = fence.set(&mut data, "state", "old", old.token()).await.unwrap_err();
        assert!(Stale::of(&late).is_some(), "{late}");
        fence.set(&mut data, "state", "new", new.token()).await.unwrap();
        assert_eq!(soon("the old one is told", old.lost()).await, Loss::Broken);
        new.extend().await.unwrap();
    });
}

#[test]
fn an_acknowledged_lock_outlives_its_killed_master() {
    play(async || a_lock_outlives(Server::kill).await);
}

#[test]
fn an_acknowledged_lock_outlives_its_frozen_master() {
    play(async || {
        a_lock_outlives(Server::freeze).await;
    });
}

async fn a_lock_outlives(end: fn(&Server) -> tenure_servers::Result<()>) {
    let set = Sentinels::start().unwrap();
    let [master, replica] = set.servers() else { panic!("there are two") };
    let url = format!("{}?acks=1&timeout=1s&connect_timeout=500ms", set.url());
    // The new master has no replica, so this client must not ask for acknowledgements.
    let alone = format!("{}?timeout=1s&connect_timeout=500ms", set.url());
    let (locks, other) = (connect(&url).await, connect(&alone).await);
    let guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
    let waiter = waiting(&other, "a");
    until_line(&locks, "a", 2).await;
    ask(master, "WAIT 1 5000");

    end(master).unwrap();
    let next = set.next_master(master).unwrap();
    assert_eq!(next.port(), replica.port());
    let late = waiting(&other, "a");
    until("who comes during the fail-over stands in line", async || {
        other.line("a").await.is_ok_and(|line| line.len() >= 3)
    })
    .await;
    guard.check().unwrap();
    let line = other.line("a").await.unwrap();
    assert_eq!((line[0].id, line[0].number), (guard.id(), guard.token().get()));
    assert!(other.mutex("a").try_lock().await.unwrap().is_none());
    // Its renewals reach the master, though no replica acknowledges them.
    let lives = async || other.line("a").await.unwrap()[0].life.unwrap();
    until("its renewals arrive", async || {
        assert!(guard.extend().await.is_err(), "there is nobody to acknowledge it");
        lives().await > TTL * 9 / 10
    })
    .await;
    if master.pid().is_err() {
        master.restart().unwrap();
    } else {
        master.thaw().unwrap();
    }
    until("the old master acknowledges", async || guard.extend().await.is_ok()).await;
    assert!(!waiter.is_finished() && !late.is_finished());
    let token = guard.token();
    guard.release().await.unwrap();
    let second = soon("the waiter is served", waiter).await.unwrap();
    assert!(second.token() > token);
    drop(second);
    drop(soon("the late one is served", late).await.unwrap());
}

#[test]
fn a_frozen_sentinel_holds_nobody_up() {
    play(async || {
        let set = Sentinels::start().unwrap();
        set.sentinels()[0].freeze().unwrap();
        let wrong = tenure_redis::connect(set.url().replace("/tenure", "/other")).await;
        assert_refused(wrong, ErrorKind::Unavailable, &["no sentinel names a master", "`other`"]);
        let locks = connect(set.url()).await;
        let guard = locks.mutex("a").ttl(TTL).renew_every(BEAT).lock().await.unwrap();
        let master = &set.servers()[0];
        ask(master, "CLIENT KILL TYPE normal");
        ask(master, "CLIENT KILL TYPE pubsub");
        guard.extend().await.unwrap();
        master.kill().unwrap();
        let next = persistently(&locks, "b").await;
        assert!(next.token() > guard.token());
        assert!(set.servers()[1].pid().is_ok());
    });
}

#[test]
fn who_asks_for_acknowledgements_gets_no_lock_without_a_replica() {
    play(async || {
        let server = Server::start().unwrap();
        let url = format!("{}?acks=1&timeout=400ms", server.url());
        let locks = connect(&url).await;
        let warnings = &locks.guarantees().warnings;
        assert!(warnings.iter().any(|it| it.contains("0 replicas")), "{warnings:?}");
        let plain = connect(server.url()).await;
        // It is looked for until it could not live any more.
        let brief = Duration::from_secs(3);
        for _ in 0..2 {
            let told = locks.mutex("a").ttl(brief).lock().await;
            assert_refused(told, ErrorKind::Unavailable, &["only 0 of the 1 required replicas"]);
            soon("nothing is left", locks.flush()).await;
            assert!(plain.line("a").await.unwrap().is_empty());
        }
        let guard = plain.mutex("a").lock().await.unwrap();
        let told = locks.mutex("a").ttl(brief).lock().await;
        assert_refused(told, ErrorKind::Unavailable, &["only 0 of the 1 required replicas"]);
        soon("nothing is left", locks.flush()).await;
        assert_eq!(plain.line("a").await.unwrap().len(), 1);
        guard.release().await.unwrap();
    });
}

async fn data(server: &Server) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}
