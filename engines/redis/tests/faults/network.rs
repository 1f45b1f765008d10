//! The network is slow, or silent, or silent in one direction.

use std::time::Duration;

use tenure_conformance::fault::{Act, Direction, Match};
use tenure_core::{ErrorKind, Loss};
use tenure_servers::redis::Server;

use super::stage::{
    LONG, assert_refused, connect, connect_at_last, play, proxy_to, soon, until, until_line,
};

#[test]
fn everything_works_over_a_slow_network() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        proxy.delay(Duration::from_millis(50));
        let url = format!("redis://{}", proxy.address());
        let (locks, other) = (connect(&url).await, connect(&url).await);
        let guard = locks.mutex("a").lock().await.unwrap();
        assert!(other.mutex("a").try_lock().await.unwrap().is_none());
        let waiter = tokio::spawn({
            let mutex = other.mutex("a");
            async move { mutex.lock().await }
        });
        until_line(&locks, "a", 2).await;
        guard.extend().await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        let next = soon("the waiter is served", waiter).await.unwrap().unwrap();
        assert!(next.token() > token);
        drop(next);
        other.flush().await;

        let rwlock = locks.rwlock("b");
        let (one, two) = (rwlock.read().await.unwrap(), rwlock.read().await.unwrap());
        assert!(rwlock.try_write().await.unwrap().is_none());
        drop((one, two));
        soon("the writer is served", rwlock.write()).await.unwrap().release().await.unwrap();
        let semaphore = locks.semaphore("c", 2);
        let _permits = semaphore.acquire_many(2).await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        assert_eq!(locks.keys("").await.unwrap().len(), 1);
        assert_eq!(locks.sequence("d").next().await.unwrap(), 1);
        assert!(locks.counter("e").window(LONG).add(1).await.unwrap().allowed);
    });
}

#[test]
fn a_black_hole_costs_the_lock_at_its_deadline_and_no_more() {
    play(async || {
        const TTL: Duration = Duration::from_secs(2);
        for direction in [None, Some(Direction::Replies), Some(Direction::Requests)] {
            let server = Server::start().unwrap();
            let proxy = proxy_to(&server);
            let url = format!("redis://{}?timeout=400ms&connect_timeout=400ms", proxy.address());
            let (locks, honest) = (connect_at_last(url).await, connect(server.url()).await);
            let guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
            match direction {
                None => proxy.black_hole(),
                Some(direction) => proxy.black_hole_for(direction),
            }
            let warning = soon("it is warned", guard.warned()).await;
            assert!(warning.failed > 0);
            let loss = soon("it is told", guard.lost()).await;
            assert_eq!(loss, Loss::Unreachable);
            let in_vain = locks.mutex("b").ttl(TTL).try_lock().await;
            assert_refused(in_vain, ErrorKind::Unavailable, &["127.0.0.1"]);
            // Another client gets the lock during the partition, when the ticket's lease ends.
            let next = soon("it is free", honest.mutex("a").ttl(LONG).lock()).await.unwrap();
            assert!(next.token() > guard.token());
            proxy.heal();
            let healed = soon("it recovers", async {
                loop {
                    if let Ok(guard) = locks.mutex("b").lock().await {
                        return guard;
                    }
                }
            });
            healed.await.release().await.unwrap();
            assert_eq!(guard.check().unwrap_err().loss(), Some(Loss::Unreachable));
            drop(guard);
            next.extend().await.unwrap();
        }
    });
}

#[test]
fn a_renewal_that_is_answered_too_late_revives_nothing() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let url = format!("redis://{}?timeout=60s", proxy.address());
        let locks = connect(url).await;
        let guard = locks.mutex("a").ttl(Duration::from_secs(1)).lock().await.unwrap();
        let held = proxy.on(Match::request_containing("EVALSHA"), Act::HoldReply);
        let loss = soon("it is lost", guard.lost()).await;
        assert!(matches!(loss, Loss::Unreachable | Loss::Expired), "{loss}");
        held.release();
        until("the store answers again", async || locks.line("b").await.is_ok()).await;
        for _ in 0..100 {
            assert_eq!(guard.check().unwrap_err().loss(), Some(loss));
            tokio::task::yield_now().await;
        }
        assert_eq!(guard.lost().await, loss);
        assert_eq!(guard.extend().await.unwrap_err().kind(), ErrorKind::Lost);
        assert_eq!(guard.release().await.unwrap_err().loss(), Some(loss));
    });
}

#[test]
fn a_server_that_turns_clients_out_is_asked_again() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let locks = connect(format!("redis://{}", proxy.address())).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        proxy.refuse();
        proxy.reset();
        assert_refused(locks.mutex("b").try_lock().await, ErrorKind::Unavailable, &["127.0.0.1"]);
        assert!(guard.extend().await.is_err());
        guard.check().unwrap();
        proxy.heal();
        until("it is let in again", async || guard.extend().await.is_ok()).await;
        guard.release().await.unwrap();
        locks.flush().await;
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}
