//! The server's clock is set forward and back: which locks are kept, and which are lost.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tenure_core::{ErrorKind, Loss};
use tenure_fence_redis::{Fence, Stale};
use tenure_servers::redis::{FAKETIME, Server, Setup};

use super::stage::{ask, connect, play_with, soon};

const TTL: Duration = Duration::from_secs(30);

async fn data(server: &Server) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

#[test]
fn a_clock_set_forward_ends_locks_early_and_their_tokens_save_the_data() {
    play_with(&[FAKETIME], async || {
        let server = Setup::new().settable_clock().start().unwrap();
        let other_server = Server::start().unwrap();
        let (fence, mut data) = (Fence::new("data").unwrap(), data(&other_server).await);
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        assert!(!locks.guarantees().survives.clock_step);
        let old = locks.mutex("a").ttl(TTL).lock().await.unwrap();
        fence.claim(&mut data, old.token()).await.unwrap();
        assert!(other.mutex("a").try_lock().await.unwrap().is_none());
        server.set_clock(60).unwrap();
        // The old holder cannot know yet, and there are two.
        let new = other.mutex("a").ttl(TTL).try_lock().await.unwrap().expect("it is over there");
        assert!(new.token() > old.token());
        old.check().unwrap();
        fence.claim(&mut data, new.token()).await.unwrap();
        let late = fence.set(&mut data, "state", "old", old.token()).await.unwrap_err();
        assert_eq!((late.kind(), Stale::of(&late).is_some()), (ErrorKind::Lost, true));
        fence.set(&mut data, "state", "new", new.token()).await.unwrap();

        assert_eq!(old.extend().await.unwrap_err().loss(), Some(Loss::Broken));
        drop(old);
        locks.flush().await;
        new.extend().await.unwrap();
        new.release().await.unwrap();
    });
}

#[test]
fn a_clock_set_back_makes_lives_longer_and_numbers_grow_all_the_same() {
    play_with(&[FAKETIME], async || {
        let server = Setup::new().settable_clock().start().unwrap();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        let idle = locks.mutex("idle").lock().await.unwrap();
        let last_idle = idle.token();
        idle.release().await.unwrap();
        let guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
        let waiter = tokio::spawn({
            let mutex = other.mutex("a").ttl(TTL);
            async move { mutex.lock().await }
        });
        super::stage::until_line(&locks, "a", 2).await;
        server.set_clock(-600).unwrap();
        for place in locks.line("a").await.unwrap() {
            assert!(place.life.unwrap() > Duration::from_secs(600), "{place:?}");
        }
        guard.extend().await.unwrap();
        assert!(other.mutex("a").try_lock().await.unwrap().is_none());
        let token = guard.token();
        guard.release().await.unwrap();
        let next = soon("the waiter is served", waiter).await.unwrap().unwrap();
        assert!(next.token() > token);
        let token = next.token();
        next.release().await.unwrap();
        let third = locks.mutex("a").lock().await.unwrap();
        assert!(third.token() > token);
        assert!(locks.mutex("idle").lock().await.unwrap().token() > last_idle);
    });
}

#[test]
fn only_a_flush_under_a_clock_that_was_set_back_takes_numbers_back() {
    play_with(&[FAKETIME], async || {
        let server = Setup::new().settable_clock().start().unwrap();
        let locks = connect(server.url()).await;
        assert_eq!(locks.guarantees().fencing, tenure_core::TokenDurability::Volatile);
        let token = async || {
            let guard = locks.mutex("a").lock().await.unwrap();
            let token = guard.token().get();
            guard.release().await.unwrap();
            token
        };
        let first = token().await;
        ask(&server, "FLUSHALL");
        let second = token().await;
        assert!(second > first, "the clock is above every number there was");
        server.set_clock(-600).unwrap();
        let third = token().await;
        assert_eq!(third, second + 1, "the line remembers");
        ask(&server, "FLUSHALL");
        let fourth = token().await;
        assert!(
            fourth < third,
            "neither the line nor the clock knows, and this is what `Volatile` says"
        );
        server.set_clock(0).unwrap();
        ask(&server, "FLUSHALL");
        assert!(token().await > third);
    });
}
