//! The floor: the fewest commands of a lock and of a hand-over, by the same client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::StreamExt as _;
use redis::Script;
use redis::aio::{MultiplexedConnection, PubSub};
use tokio::sync::Mutex;

use crate::contest::contender::{Contender, FAILS, Held, Later, TTL};

const COMPARE_AND_DELETE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// A lock without line, token, renewal or loss: two round trips over one connection.
pub(crate) struct Floor {
    connection: MultiplexedConnection,
    release: Arc<Script>,
    attempts: AtomicU64,
}

impl Floor {
    pub(crate) async fn connect(url: &str) -> Self {
        Self {
            connection: connection(url).await,
            release: Arc::new(Script::new(COMPARE_AND_DELETE)),
            attempts: AtomicU64::default(),
        }
    }
}

impl Contender for Floor {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let id = format!("{:08x}{attempt:024x}", std::process::id());
            let mut connection = self.connection.clone();
            let mut set = redis::cmd("SET");
            set.arg(key).arg(&id).arg("NX").arg("PX").arg(TTL.as_millis());
            let taken: Option<String> = set.query_async(&mut connection).await.unwrap();
            if taken.is_none() {
                return Err(FAILS.into());
            }
            let (script, key) = (self.release.clone(), key.to_owned());
            let release = Box::pin(async move {
                let deleted: u8 =
                    script.key(key).arg(id).invoke_async(&mut connection).await.unwrap();
                assert_eq!(deleted, 1, "the key has this owner");
            });
            Ok(Held { token: None, release })
        })
    }
}

/// A message that two processes pass to and fro: the side that has it holds.
pub(crate) struct Hop {
    connection: MultiplexedConnection,
    inbox: Mutex<PubSub>,
    other: &'static str,
    /// Whether this side holds at the start.
    first: AtomicBool,
    /// Whether the receiver makes a round trip to the server first.
    trip: bool,
}

impl Hop {
    pub(crate) async fn connect(url: &str, side: usize, trip: bool) -> Self {
        let [own, other] = if side == 0 { ["to 0", "to 1"] } else { ["to 1", "to 0"] };
        let client = redis::Client::open(url).unwrap();
        let mut inbox = client.get_async_pubsub().await.unwrap();
        inbox.subscribe(format!("{own} {trip}")).await.unwrap();
        let first = AtomicBool::new(side == 0);
        Self { connection: connection(url).await, inbox: Mutex::new(inbox), other, first, trip }
    }
}

impl Contender for Hop {
    fn lock<'a>(&'a self, _key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let mut connection = self.connection.clone();
            if !self.first.swap(false, Ordering::Relaxed) {
                self.inbox.lock().await.on_message().next().await.unwrap();
                if self.trip {
                    let _: String = redis::cmd("PING").query_async(&mut connection).await.unwrap();
                }
            }
            let channel = format!("{} {}", self.other, self.trip);
            let release = Box::pin(async move {
                let mut publish = redis::cmd("PUBLISH");
                publish.arg(channel).arg("yours");
                let reached: u8 = publish.query_async(&mut connection).await.unwrap();
                assert_eq!(reached, 1, "the other side is subscribed");
            });
            Ok(Held { token: None, release })
        })
    }
}

async fn connection(url: &str) -> MultiplexedConnection {
    redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}
