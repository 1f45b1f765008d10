//! The server, or the holder's whole process, is stopped for longer than a ttl.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use tenure_conformance::helper::{self, Helper};
use tenure_core::{ErrorKind, Loss, MutexGuard};
use tenure_fence_redis::Fence;
use tenure_servers::redis::Server;

use super::stage::{PATIENCE, assert_refused, connect, connect_at_last, play, soon};

const TTL: Duration = Duration::from_secs(2);

#[test]
fn a_frozen_server_costs_the_lock_at_its_deadline_and_never_makes_two_holders() {
    play(async || {
        let server = Server::start().unwrap();
        let url = format!("{}?timeout=400ms&connect_timeout=400ms", server.url());
        let (locks, other) = (connect_at_last(&url).await, connect_at_last(&url).await);
        for _ in 0..2 {
            let guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
            let waiter = tokio::spawn({
                let other = other.clone();
                async move {
                    // The call may fail because the server does not answer. It is repeated.
                    loop {
                        match other.mutex("a").ttl(TTL).lock().await {
                            Ok(guard) => return guard,
                            Err(error) => assert_ne!(error.kind(), ErrorKind::Rejected, "{error}"),
                        }
                    }
                }
            });
            super::stage::until_line(&locks, "a", 2).await;
            server.freeze().unwrap();
            let frozen = Instant::now();
            let loss = soon("the holder is told though nobody answers", guard.lost()).await;
            assert!(matches!(loss, Loss::Unreachable | Loss::Expired), "{loss}");
            while frozen.elapsed() < TTL {
                assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
                tokio::time::sleep(TTL / 10).await;
            }
            let in_vain = locks.mutex("b").ttl(TTL).try_lock().await;
            assert_refused(
                in_vain,
                ErrorKind::Unavailable,
                &[" within ", "timeout=TIME` waits longer"],
            );
            server.thaw().unwrap();
            let next = soon("the waiter is served", waiter).await.unwrap();
            assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
            assert!(next.token() > guard.token());
            drop(guard);
            next.check().unwrap();
            next.release().await.unwrap();
            locks.flush().await;
        }
    });
}

#[test]
fn a_holder_that_slept_past_its_lease_cannot_write_any_more() {
    play(async || {
        let server = Server::start().unwrap();
        let write = format!("write {}", server.url());
        let mut helper = Helper::start(&server.url(), "pause::helper_process");
        helper.tell(&format!("lock a {}", TTL.as_millis()));
        let old = helper.hear_token();
        helper.tell(&write);
        assert_eq!(helper.hear(), "written");

        helper.stop();
        let locks = connect(server.url()).await;
        let guard = soon("the next holder gets it", locks.mutex("a").lock()).await.unwrap();
        assert!(guard.token().get() > old);
        let (fence, mut data) = (Fence::new("data").unwrap(), data(&server.url()).await);
        fence.claim(&mut data, guard.token()).await.unwrap();
        helper.go_on();

        // It writes without a look at its guard: only its token stops it.
        helper.tell(&write);
        assert_eq!(helper.hear(), "refused");
        helper.tell("check");
        assert_eq!(helper.hear(), "lost");
        fence.set(&mut data, "state", "new", guard.token()).await.unwrap();
        guard.check().unwrap();
    });
}

async fn data(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).unwrap();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// Not a test: where the helper process begins.
#[test]
fn helper_process() {
    helper::serve_also(tenure_redis::connect, |guard, line| {
        let url = line.strip_prefix("write ").expect("it is only asked to write");
        tokio::runtime::Runtime::new().unwrap().block_on(write(guard, url)).to_owned()
    });
}

async fn write(guard: &MutexGuard, url: &str) -> &'static str {
    let (fence, mut data) = (Fence::new("data").unwrap(), data(url).await);
    match fence.set(&mut data, "state", "old", guard.token()).await {
        Ok(()) => "written",
        Err(error) if error.kind() == ErrorKind::Lost => "refused",
        Err(error) => panic!("{error}"),
    }
}
