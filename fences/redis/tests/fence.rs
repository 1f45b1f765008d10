//! Guarded writes to a Redis that each test starts for itself.

#[path = "fence/cluster.rs"]
mod cluster;
#[path = "fence/race.rs"]
mod race;
#[path = "fence/scripts.rs"]
mod scripts;
#[path = "fence/server.rs"]
mod server;
#[path = "fence/trouble.rs"]
mod trouble;
#[path = "fence/verbs.rs"]
mod verbs;

use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use server::Server;
use tenure_core::{ErrorKind, NUMBER_MAX, Result};
use tenure_fence_redis::{Fence, Stale};

fn numbered(number: u64) -> tenure_core::Token {
    tenure_core::Token::new(number).unwrap()
}

/// A fixture: a server of the test's own, a connection to it, and a fence.
struct Bench {
    server: Server,
    conn: MultiplexedConnection,
    fence: Fence,
}

impl Bench {
    /// Runs one test. Skips it if there is no Redis on this machine.
    fn run(test: impl AsyncFnOnce(Self)) {
        let Some(server) = Server::start(&[]) else { return };
        block_on(async {
            let conn = server.connect().await;
            test(Self { server, conn, fence: Fence::new("invoices").unwrap() }).await;
        });
    }

    /// Sends a command without a fence.
    async fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        redis::cmd(words[0]).arg(&words[1..]).query_async(&mut self.conn).await.unwrap()
    }

    /// Returns the newest token that the fence has seen.
    async fn newest(&mut self) -> Option<u64> {
        let key = self.fence.key().to_owned();
        self.ask(&["GET", &key]).await
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Asserts that the write was refused because of a newer token.
#[track_caller]
fn assert_stale<T: std::fmt::Debug>(answer: Result<T>, token: u64, newest: u64) {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
    assert_eq!(Stale::of(&error), Some(Stale { token, newest }), "{error:?}");
}

/// Asserts that the write failed with this kind, and that the message contains `part`.
#[track_caller]
fn assert_failed<T: std::fmt::Debug>(answer: Result<T>, kind: ErrorKind, part: &str) {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert_eq!(Stale::of(&error), None, "{error:?}");
    assert!(error.to_string().contains(part), "{error:?}");
    assert!(!error.to_string().contains('\n'), "{error:?}");
}
