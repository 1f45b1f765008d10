//! The peers: `GET_LOCK`, which a connection holds until it ends, and a table of leases.
//!
//! A lock of `GET_LOCK` has no token, no ttl and no line, and its holder does not learn that the
//! connection has ended. A connection that holds one gets it again at once, so each holder and each
//! waiter needs a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::sync::Mutex;

use super::POLL;
use super::wire::{Wire, text};
use crate::contest::contender::{Contender, Held, Later, TTL};

/// The idle connections of a process.
struct Sessions {
    url: String,
    idle: Mutex<Vec<Wire>>,
}

/// A lock of `GET_LOCK`: the server queues the waiters, or they poll.
pub(crate) struct NamedLock {
    sessions: Arc<Sessions>,
    polls: bool,
}

impl NamedLock {
    pub(crate) fn of(url: &str, polls: bool) -> Self {
        let sessions = Sessions { url: url.to_owned(), idle: Mutex::default() };
        Self { sessions: Arc::new(sessions), polls }
    }

    async fn session(&self) -> Result<Wire, String> {
        let idle = self.sessions.idle.lock().pop();
        match idle {
            Some(session) => Ok(session),
            None => Wire::open(&self.sessions.url).await,
        }
    }
}

impl Contender for NamedLock {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let session = self.session().await?;
            let seconds = if self.polls { 0 } else { 86_400 };
            let take = format!("SELECT GET_LOCK('{key}', {seconds})");
            while session.row::<u8>(&take).await.map_err(text)? != Some(1) {
                tokio::time::sleep(POLL).await;
            }
            let (sessions, let_go) = (self.sessions.clone(), format!("DO RELEASE_LOCK('{key}')"));
            let release = Box::pin(async move {
                session.write(let_go).await;
                sessions.idle.lock().push(session);
            });
            Ok(Held { token: None, release })
        })
    }
}

const LEASES: &str = "CREATE TABLE IF NOT EXISTS bench_lease \
     (`key` VARCHAR(255) PRIMARY KEY, owner VARCHAR(64) NOT NULL, until DATETIME(6) NOT NULL)";

/// A row with an expiry for each lock, which waiters poll. It is never renewed.
pub(crate) struct Lease {
    wire: Arc<Wire>,
    attempts: AtomicU64,
}

impl Lease {
    pub(crate) async fn connect(url: &str) -> Self {
        let wire = Wire::open(url).await.unwrap();
        wire.write(LEASES).await;
        Self { wire: Arc::new(wire), attempts: AtomicU64::default() }
    }
}

impl Contender for Lease {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let owner = format!("{:08x}{attempt:024x}", std::process::id());
            let ttl = TTL.as_secs();
            let expire = format!(
                "UPDATE bench_lease SET owner = '{owner}', until = now(6) + INTERVAL {ttl} SECOND \
                 WHERE `key` = '{key}' AND until < now(6)"
            );
            let insert = format!(
                "INSERT IGNORE INTO bench_lease \
                 VALUES ('{key}', '{owner}', now(6) + INTERVAL {ttl} SECOND)"
            );
            while self.wire.write(&insert).await == 0 && self.wire.write(&expire).await == 0 {
                tokio::time::sleep(POLL).await;
            }
            let wire = self.wire.clone();
            let let_go =
                format!("DELETE FROM bench_lease WHERE `key` = '{key}' AND owner = '{owner}'");
            let release = Box::pin(async move {
                wire.write(let_go).await;
            });
            Ok(Held { token: None, release })
        })
    }
}
