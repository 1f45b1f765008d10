//! The floor: the fewest statements of a lock and of a hand-over, by the same driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

use super::wire::{open, rows};
use crate::contest::contender::{Contender, FAILS, Held, Later};

/// The options are those of the engine's table.
const TABLES: &str = "CREATE SCHEMA IF NOT EXISTS bench;
    CREATE TABLE IF NOT EXISTS bench.floor (key bytea PRIMARY KEY, owner text)
    WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
    CREATE TABLE IF NOT EXISTS bench.hop (side text PRIMARY KEY, count bigint) WITH (fillfactor = 50);
    INSERT INTO bench.hop VALUES ('one_0', 0), ('one_1', 0), ('two_0', 0), ('two_1', 0)
    ON CONFLICT DO NOTHING";
const BEAR: &str =
    "INSERT INTO bench.floor (key) VALUES ($1) ON CONFLICT (key) DO NOTHING RETURNING key";
const TAKE: &str =
    "UPDATE bench.floor SET owner = $2 WHERE key = $1 AND owner IS NULL RETURNING key";
const LET_GO: &str =
    "UPDATE bench.floor SET owner = NULL WHERE key = $1 AND owner = $2 RETURNING key";

/// A lock without line, token, ttl, renewal or loss: two updates by the key.
pub(crate) struct Floor {
    client: Arc<Client>,
    take: Update,
    let_go: Update,
    attempts: AtomicU64,
}

/// An update, with a name in the server or without.
#[derive(Clone)]
enum Update {
    Unnamed(&'static str),
    Prepared(Statement),
}

impl Update {
    /// Returns whether it found the row.
    async fn finds(&self, client: &Client, key: &[u8], owner: &str) -> bool {
        let found = match self {
            Self::Unnamed(text) => {
                rows(client, text, &[(&key, Type::BYTEA), (&owner, Type::TEXT)]).await
            }
            Self::Prepared(statement) => client.query(statement, &[&key, &owner]).await.unwrap(),
        };
        !found.is_empty()
    }
}

impl Floor {
    pub(crate) async fn connect(url: &str) -> Self {
        let (client, _) = open(url).await.unwrap();
        client.batch_execute(TABLES).await.unwrap();
        Self {
            client: Arc::new(client),
            take: Update::Unnamed(TAKE),
            let_go: Update::Unnamed(LET_GO),
            attempts: AtomicU64::default(),
        }
    }

    /// The same with statements that the server has prepared.
    pub(crate) async fn prepared(url: &str) -> Self {
        let floor = Self::connect(url).await;
        let take = Update::Prepared(floor.client.prepare(TAKE).await.unwrap());
        let let_go = Update::Prepared(floor.client.prepare(LET_GO).await.unwrap());
        Self { take, let_go, ..floor }
    }
}

impl Contender for Floor {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let owner = format!("{:08x}{attempt:024x}", std::process::id());
            while !self.take.finds(&self.client, key.as_bytes(), &owner).await {
                let born = rows(&self.client, BEAR, &[(&key.as_bytes(), Type::BYTEA)]).await;
                if born.is_empty() {
                    return Err(FAILS.into());
                }
            }
            let (client, let_go) = (self.client.clone(), self.let_go.clone());
            let key = key.to_owned();
            let release = Box::pin(async move {
                let is_let_go = let_go.finds(&client, key.as_bytes(), &owner).await;
                assert!(is_let_go, "the row has this owner");
            });
            Ok(Held { token: None, release })
        })
    }
}

/// An update and a notification that two processes send each other: the notified side holds.
pub(crate) struct Hop {
    client: Arc<Client>,
    notifications: Mutex<UnboundedReceiver<()>>,
    other: &'static str,
    /// Whether the update and the notification are one transaction.
    is_one: bool,
    /// Whether this side holds at the start.
    first: AtomicBool,
}

const UPDATE: &str = "UPDATE bench.hop SET count = count + 1 WHERE side = $1 RETURNING side";
/// As the engine notifies: the second transaction does not wait for the disk.
const NOTIFY: &str =
    "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, 'served')";
const UPDATE_AND_NOTIFY: &str =
    "WITH written AS (UPDATE bench.hop SET count = count + 1 WHERE side = $1 RETURNING side)
    SELECT pg_notify(side, 'served') FROM written";

impl Hop {
    pub(crate) async fn connect(url: &str, side: usize, is_one: bool) -> Self {
        let [first, second] = if is_one { ["one_0", "one_1"] } else { ["two_0", "two_1"] };
        let (own, other) = if side == 0 { (first, second) } else { (second, first) };
        let (client, notifications) = open(url).await.unwrap();
        client.batch_execute(TABLES).await.unwrap();
        let first = AtomicBool::new(side == 0);
        client.batch_execute(&format!("LISTEN {own}")).await.unwrap();
        let notifications = Mutex::new(notifications);
        Self { client: Arc::new(client), notifications, other, is_one, first }
    }
}

impl Contender for Hop {
    fn lock<'a>(&'a self, _key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            if !self.first.swap(false, Ordering::Relaxed) {
                self.notifications.lock().await.recv().await.unwrap();
            }
            let (client, other, is_one) = (self.client.clone(), self.other, self.is_one);
            let release = Box::pin(async move {
                let parameters = [(&other as _, Type::TEXT)];
                if is_one {
                    rows(&client, UPDATE_AND_NOTIFY, &parameters).await;
                } else {
                    rows(&client, UPDATE, &parameters).await;
                    rows(&client, NOTIFY, &parameters).await;
                }
            });
            Ok(Held { token: None, release })
        })
    }
}
