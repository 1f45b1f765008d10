//! The peers: advisory locks, which a session holds until it ends, and a table of leases.
//!
//! An advisory lock has no token, no ttl and no line, and its holder does not learn that the
//! session has ended. A session that holds one gets it again at once, so each holder and each
//! waiter needs a session of its own.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::sync::Mutex;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::POLL;
use super::wire::{open, rows, text};
use crate::contest::contender::{Contender, Held, Later, TTL};

/// The number of a key, which advisory locks have instead of a name.
pub(super) fn number(key: &str) -> i64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish().cast_signed()
}

/// The idle sessions of a process.
struct Sessions {
    url: String,
    idle: Mutex<Vec<Client>>,
}

impl Sessions {
    async fn take(&self) -> Result<Client, String> {
        let idle = self.idle.lock().pop();
        match idle {
            Some(session) => Ok(session),
            None => Ok(open(&self.url).await?.0),
        }
    }
}

/// An advisory lock: the server queues the waiters, or they poll.
pub(crate) struct Advisory {
    sessions: Arc<Sessions>,
    polls: bool,
}

impl Advisory {
    pub(crate) fn of(url: &str, polls: bool) -> Self {
        let sessions = Sessions { url: url.to_owned(), idle: Mutex::default() };
        Self { sessions: Arc::new(sessions), polls }
    }

    async fn wait(&self, session: &Client, number: i64) -> Result<(), tokio_postgres::Error> {
        let parameters = [(&number as _, Type::INT8)];
        if !self.polls {
            session.query_typed("SELECT pg_advisory_lock($1)", &parameters).await?;
            return Ok(());
        }
        loop {
            let tried = "SELECT pg_try_advisory_lock($1)";
            if session.query_typed_one(tried, &parameters).await?.get(0) {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Contender for Advisory {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let number = number(key);
            let session = self.sessions.take().await?;
            self.wait(&session, number).await.map_err(text)?;
            let sessions = self.sessions.clone();
            let release = Box::pin(async move {
                let parameters = [(&number as _, Type::INT8)];
                rows(&session, "SELECT pg_advisory_unlock($1)", &parameters).await;
                sessions.idle.lock().push(session);
            });
            Ok(Held { token: None, release })
        })
    }
}

const LEASES: &str = "CREATE SCHEMA IF NOT EXISTS bench;
    CREATE TABLE IF NOT EXISTS bench.lease (
        key text PRIMARY KEY, owner text NOT NULL, until timestamptz NOT NULL
    )";
const TAKE: &str = "INSERT INTO bench.lease AS l VALUES ($1, $2, now() + $3 * interval '1 second')
    ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until = excluded.until
    WHERE l.until < now()
    RETURNING key";
const LET_GO: &str = "DELETE FROM bench.lease WHERE key = $1 AND owner = $2";

/// A row with an expiry for each lock, which waiters poll. It is never renewed.
pub(crate) struct Lease {
    client: Arc<Client>,
    attempts: AtomicU64,
}

impl Lease {
    pub(crate) async fn connect(url: &str) -> Self {
        let (client, _) = open(url).await.unwrap();
        client.batch_execute(LEASES).await.unwrap();
        Self { client: Arc::new(client), attempts: AtomicU64::default() }
    }
}

impl Contender for Lease {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let owner = format!("{:08x}{attempt:024x}", std::process::id());
            let ttl = TTL.as_secs_f64();
            loop {
                let parameters =
                    [(&key as _, Type::TEXT), (&owner as _, Type::TEXT), (&ttl as _, Type::FLOAT8)];
                let taken = self.client.query_typed(TAKE, &parameters).await.map_err(text)?;
                if !taken.is_empty() {
                    break;
                }
                tokio::time::sleep(POLL).await;
            }
            let (client, key) = (self.client.clone(), key.to_owned());
            let release = Box::pin(async move {
                rows(&client, LET_GO, &[(&key, Type::TEXT), (&owner, Type::TEXT)]).await;
            });
            Ok(Held { token: None, release })
        })
    }
}
