//! The way of `DistributedLock`, a library for .NET, written by hand in SQL.
//!
//! Advisory locks of several keys share a connection: it tries a key without waiting. If the key is
//! taken, or the connection is busy, the lock is waited for on a connection that holds nothing.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tenure_core::sync::Mutex;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::peers::number;
use super::wire::{open, text};
use crate::contest::contender::{Contender, Held, Later};

/// A connection, and the keys that it holds.
struct Session {
    client: Client,
    held: HashSet<i64>,
}

type Shared = Arc<tokio::sync::Mutex<Session>>;

pub(crate) struct Multiplexed {
    url: String,
    sessions: Arc<Mutex<VecDeque<Shared>>>,
}

impl Multiplexed {
    pub(crate) fn of(url: &str) -> Self {
        Self { url: url.to_owned(), sessions: Arc::default() }
    }

    /// Tries the key on the connection that was used least recently.
    async fn try_shared(&self, number: i64) -> Result<Option<Shared>, String> {
        let first = self.sessions.lock().pop_front();
        let Some(shared) = first else { return Ok(None) };
        let mut got = false;
        if let Ok(mut session) = shared.try_lock()
            && !session.held.contains(&number)
        {
            got = session.ask("try_advisory_lock", number).await?;
            if got {
                session.held.insert(number);
            }
        }
        self.sessions.lock().push_back(shared.clone());
        Ok(got.then_some(shared))
    }

    /// Waits for the key on a connection that holds nothing.
    async fn wait(&self, number: i64) -> Result<Shared, String> {
        let free = self.free().await?;
        {
            let mut session = free.lock().await;
            session.ask("advisory_lock", number).await?;
            session.held.insert(number);
        }
        self.sessions.lock().push_back(free.clone());
        Ok(free)
    }

    /// A connection that holds nothing. No other task uses it until it is put back.
    async fn free(&self) -> Result<Shared, String> {
        let is_free = |one: &Shared| one.try_lock().is_ok_and(|one| one.held.is_empty());
        let free = {
            let mut sessions = self.sessions.lock();
            let at = sessions.iter().position(is_free);
            at.and_then(|at| sessions.remove(at))
        };
        if let Some(free) = free {
            return Ok(free);
        }
        let (client, _) = open(&self.url).await?;
        Ok(Arc::new(tokio::sync::Mutex::new(Session { client, held: HashSet::new() })))
    }
}

impl Session {
    /// One request, with the time limits of an endless wait. Returns whether the key is held.
    async fn ask(&self, function: &str, number: i64) -> Result<bool, String> {
        let statements = format!(
            "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; \
             SELECT pg_catalog.pg_{function}({number}) AS result"
        );
        let answer = self.client.simple_query(&statements).await.map_err(text)?;
        let is_false = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("f"));
        Ok(!answer.iter().any(is_false))
    }
}

impl Contender for Multiplexed {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let number = number(key);
            let shared = if let Some(shared) = self.try_shared(number).await? {
                shared
            } else {
                self.wait(number).await?
            };
            let release = Box::pin(async move {
                let mut session = shared.lock().await;
                let unlock = format!("SELECT pg_catalog.pg_advisory_unlock({number})");
                session.client.simple_query(&unlock).await.unwrap();
                session.held.remove(&number);
            });
            Ok(Held { token: None, release })
        })
    }
}
