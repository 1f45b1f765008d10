//! Guarded writes, against a Redis that each test starts for itself.

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

/// What a test works with: its own server, a connection to it, and a fence.
struct Bench {
    server: Server,
    conn: MultiplexedConnection,
    fence: Fence,
}

impl Bench {
    /// Runs one test, unless there is no Redis here.
    fn run(test: impl AsyncFnOnce(Self)) {
        let Some(server) = Server::start(&[]) else { return };
        block_on(async {
            let conn = server.connect().await;
            test(Self { server, conn, fence: Fence::new("invoices").unwrap() }).await;
        });
    }

    /// Asks the server something that no fence has to do with.
    async fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        redis::cmd(words[0]).arg(&words[1..]).query_async(&mut self.conn).await.unwrap()
    }

    /// The newest token that the fence has seen.
    async fn newest(&mut self) -> Option<u64> {
        let key = self.fence.key().to_owned();
        self.ask(&["GET", &key]).await
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// The write was refused because of a newer token.
#[track_caller]
fn assert_stale<T: std::fmt::Debug>(answer: Result<T>, token: u64, newest: u64) {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
    assert_eq!(Stale::of(&error), Some(Stale { token, newest }), "{error:?}");
}

/// The write failed in this way, and the sentence says this.
#[track_caller]
fn assert_failed<T: std::fmt::Debug>(answer: Result<T>, kind: ErrorKind, part: &str) {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert_eq!(Stale::of(&error), None, "{error:?}");
    assert!(error.to_string().contains(part), "{error:?}");
    assert!(!error.to_string().contains('\n'), "{error:?}");
}
