//! The floor: the fewest statements of a lock and of a hand-over, by the same driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tenure_mysql::mysql_async::Error;
use tokio::sync::{Mutex, OnceCell};

use super::wire::Wire;
use crate::contest::contender::{Contender, FAILS, Held, Later};

const FLOOR: &str =
    "CREATE TABLE IF NOT EXISTS bench_floor (`key` VARBINARY(255) PRIMARY KEY, owner VARCHAR(64))";
const HOP: &str = "CREATE TABLE IF NOT EXISTS bench_hop \
     (side INT PRIMARY KEY, count BIGINT NOT NULL, listener BIGINT NOT NULL)";

/// A lock without line, token, ttl, renewal or loss: two updates by the key.
pub(crate) struct Floor {
    wire: Arc<Wire>,
    attempts: AtomicU64,
}

impl Floor {
    pub(crate) async fn connect(url: &str) -> Self {
        let wire = Wire::open(url).await.unwrap();
        wire.write(FLOOR).await;
        Self { wire: Arc::new(wire), attempts: AtomicU64::default() }
    }
}

impl Contender for Floor {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let owner = format!("{:08x}{attempt:024x}", std::process::id());
            let take = format!(
                "UPDATE bench_floor SET owner = '{owner}' WHERE `key` = '{key}' AND owner IS NULL"
            );
            while self.wire.write(&take).await == 0 {
                let bear = format!("INSERT IGNORE INTO bench_floor VALUES ('{key}', NULL)");
                if self.wire.write(bear).await == 0 {
                    return Err(FAILS.into());
                }
            }
            let wire = self.wire.clone();
            let let_go = format!(
                "UPDATE bench_floor SET owner = NULL WHERE `key` = '{key}' AND owner = '{owner}'"
            );
            let release = Box::pin(async move {
                assert_eq!(wire.write(let_go).await, 1, "the row has this owner");
            });
            Ok(Held { token: None, release })
        })
    }
}

/// An update and a `KILL QUERY` that two processes send each other: the side whose sleep was ended
/// holds.
pub(crate) struct Hop {
    wire: Arc<Wire>,
    listener: Mutex<Listener>,
    side: usize,
    /// The connection in which the other side sleeps.
    other: Arc<OnceCell<u64>>,
    /// Whether this side holds at the start.
    first: AtomicBool,
}

struct Listener {
    wire: Wire,
    /// Number of updates of the other side that were seen.
    seen: u64,
}

impl Hop {
    pub(crate) async fn connect(url: &str, side: usize) -> Self {
        let (wire, listener) = (Wire::open(url).await.unwrap(), Wire::open(url).await.unwrap());
        wire.write(HOP).await;
        let id = listener.id().await;
        wire.write(format!("INSERT INTO bench_hop VALUES ({side}, 0, {id})")).await;
        let listener = Mutex::new(Listener { wire: listener, seen: 0 });
        let (wire, other, first) = (Arc::new(wire), Arc::default(), AtomicBool::new(side == 0));
        Self { wire, listener, side, other, first }
    }
}

impl Listener {
    /// Waits for the next update of the other side.
    async fn wait(&mut self, side: usize) {
        let count = format!("SELECT count FROM bench_hop WHERE side = {side}");
        // A `KILL` before the sleep ends nothing.
        while self.wire.row::<u64>(&count).await.unwrap() <= Some(self.seen) {
            match self.wire.row::<u8>("SELECT SLEEP(1)").await {
                Ok(Some(0)) => {}
                // The sleep was ended.
                Ok(_) | Err(Error::Server(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        self.seen += 1;
    }
}

/// Returns the connection in which this side sleeps.
async fn listener_of(wire: &Wire, side: usize) -> u64 {
    let query = format!("SELECT listener FROM bench_hop WHERE side = {side}");
    loop {
        if let Some(id) = wire.row(&query).await.unwrap() {
            return id;
        }
        // The other process connects.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

impl Contender for Hop {
    fn lock<'a>(&'a self, _key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            if !self.first.swap(false, Ordering::Relaxed) {
                self.listener.lock().await.wait(self.side).await;
            }
            let (wire, other, side) = (self.wire.clone(), self.other.clone(), 1 - self.side);
            let release = Box::pin(async move {
                let id = *other.get_or_init(|| listener_of(&wire, side)).await;
                wire.write(format!("UPDATE bench_hop SET count = count + 1 WHERE side = {side}"))
                    .await;
                wire.write(format!("KILL QUERY {id}")).await;
            });
            Ok(Held { token: None, release })
        })
    }
}
