//! A server is killed and comes back: with nothing, with everything, or too young to be trusted.

use std::time::{Duration, Instant};

use tenure_conformance::fault::stories::exclusion;
use tenure_core::{ErrorKind, Locks, Loss, MutexGuard};
use tenure_servers::redis::{Server, Setup};

use super::stage::{LONG, ask, assert_refused, connect, play, script_calls, soon, until};

const BEAT: Duration = Duration::from_millis(200);

#[test]
fn a_server_that_has_forgotten_all_is_found_out_by_the_next_renewal() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        assert!(!locks.guarantees().survives.store_crash);
        let mut newest = 0;
        for _ in 0..3 {
            let guard = locks.mutex("a").ttl(LONG).renew_every(BEAT).lock().await.unwrap();
            assert!(guard.token().get() > newest);
            newest = guard.token().get();
            server.kill().unwrap();
            server.restart().unwrap();
            // The lease would last a day, so it was a renewal that found the loss.
            assert_eq!(soon("it is told", guard.lost()).await, Loss::Broken);
            assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
            assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
        }
    });
}

#[test]
fn a_waiter_of_a_server_that_has_forgotten_all_is_told() {
    play(async || {
        let server = Server::start().unwrap();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let waiter = tokio::spawn(async move {
            other.mutex("a").ttl(LONG).renew_every(BEAT).lock().await.map(|guard| guard.token())
        });
        super::stage::until_line(&locks, "a", 2).await;
        // A waiter that has not learned yet that its ticket is in the line asks once more. It would
        // then be the first in the line.
        let before = script_calls(&server);
        until("the waiter gives a sign of life", async || script_calls(&server) > before).await;
        server.kill().unwrap();
        server.restart().unwrap();
        let told = soon("the waiter is told", waiter).await.unwrap();
        assert_refused(told, ErrorKind::Lost, &["its ticket was removed from the line"]);
        // The next caller is first in the line. The old holder learns of its loss with its next
        // renewal.
        assert_eq!(guard.extend().await.unwrap_err().loss(), Some(Loss::Broken));
        let next = locks.mutex("a").lock().await.unwrap();
        assert!(next.token() > guard.token());
    });
}

#[test]
fn a_server_that_writes_through_keeps_its_locks() {
    play(async || {
        let server = Setup::new().appendonly().start().unwrap();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        assert!(locks.guarantees().survives.store_crash);
        let guard = locks.mutex("a").ttl(LONG).renew_every(BEAT).lock().await.unwrap();
        let waiter = {
            let other = other.clone();
            tokio::spawn(async move { other.mutex("a").ttl(LONG).lock().await })
        };
        super::stage::until_line(&locks, "a", 2).await;
        for _ in 0..3 {
            server.kill().unwrap();
            server.restart().unwrap();
            assert!(other.mutex("a").try_lock().await.unwrap().is_none());
            let before = script_calls(&server);
            until("renewals go on", async || script_calls(&server) > before + 2).await;
            guard.extend().await.unwrap();
        }
        assert!(!waiter.is_finished());
        let token = guard.token();
        guard.release().await.unwrap();
        let next = soon("the waiter is served", waiter).await.unwrap().unwrap();
        assert!(next.token() > token);
    });
}

#[test]
fn a_sequence_is_kept_as_well_as_its_server_keeps_data() {
    play(async || {
        // Unpersisted data is lost with the process: its numbers are given again.
        for (setup, next) in [(Setup::new(), 1), (Setup::new().appendonly(), 3)] {
            let server = setup.start().unwrap();
            let locks = connect(server.url()).await;
            assert_eq!(locks.sequence("a").next_block(2).await.unwrap(), 1..=2);
            server.kill().unwrap();
            server.restart().unwrap();
            assert_eq!(locks.sequence("a").next().await.unwrap(), next);
        }
    });
}

#[test]
fn a_young_server_gives_no_lock_until_the_old_ones_are_over() {
    play(async || {
        const TTL: Duration = Duration::from_secs(2);
        let server = Server::start().unwrap();
        let url = format!("{}?after_restart=refuse&ttl_max=2s", server.url());
        let (locks, other) = (connect(&url).await, connect(&url).await);
        assert!(locks.guarantees().survives.store_crash);
        let young = locks.mutex("a").ttl(TTL).try_lock().await;
        assert_refused(
            young,
            ErrorKind::Unavailable,
            &["started so short a time ago", "127.0.0.1"],
        );
        let long = locks.mutex("a").ttl(TTL * 2).try_lock().await;
        assert_refused(long, ErrorKind::Invalid, &["ttl_max", "2s"]);

        let old = as_soon_as_it_is_given(&locks, TTL).await;
        server.kill().unwrap();
        server.restart().unwrap();
        let restarted = Instant::now();
        let next = as_soon_as_it_is_given(&other, TTL).await;
        assert!(restarted.elapsed() >= TTL, "it was given after {:?}", restarted.elapsed());
        assert_eq!(old.check().unwrap_err().kind(), ErrorKind::Lost);
        assert!(next.token() > old.token());
        ask(&server, "PING");
    });
}

async fn as_soon_as_it_is_given(locks: &Locks, ttl: Duration) -> MutexGuard {
    soon("it is given", async {
        loop {
            match locks.mutex("a").ttl(ttl).lock().await {
                Ok(guard) => return guard,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
        }
    })
    .await
}

#[test]
fn no_two_hold_while_a_server_that_writes_through_stops_and_dies() {
    play(async || {
        const TTL: Duration = Duration::from_secs(2);
        let server = Setup::new().appendonly().start().unwrap();
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(connect(server.url()).await);
        }
        exclusion::no_two_hold(clients, TTL, async || {
            for _ in 0..3 {
                server.freeze().unwrap();
                tokio::time::sleep(TTL * 2).await;
                server.thaw().unwrap();
                tokio::time::sleep(TTL / 2).await;
                server.kill().unwrap();
                server.restart().unwrap();
                tokio::time::sleep(TTL / 2).await;
            }
        })
        .await;
    });
}
