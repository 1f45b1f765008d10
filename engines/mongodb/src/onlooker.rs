//! Onlookers: what happens to one line, or to all of them, told from a change stream for as long as somebody looks on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mongodb::bson::{Document, RawDocumentBuf, doc};
use tenure_core::event::{Cursor, News, Scope};
use tenure_core::line::Journal;
use tenure_core::{Error, Key, Result};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use crate::call::Calls;
use crate::follow::{Listener, follow};
use crate::line::record;
use crate::mirror::{FIELDS, Mirror, NAME};
use crate::trouble;

/// A stream is closed when nobody has looked on for so long.
const IDLE: Duration = Duration::from_secs(120);
/// So many lines are followed one by one; who looks on at more of them is refused.
const FOLLOWED_MAX: usize = 64;
/// From the first cursor of one stream to the first of the next: no cursor belongs to two.
const CURSORS: u64 = 1 << 40;

/// The streams of one client's onlookers.
pub(crate) struct Onlookers {
    calls: Arc<Calls>,
    /// Those who look at all lines share one stream.
    followed: Mutex<HashMap<Option<Key>, Arc<Following>>>,
    streams: AtomicU64,
}

/// What one stream has told lately.
struct Following {
    calls: Arc<Calls>,
    key: Option<Key>,
    first_cursor: u64,
    past: Mutex<Past>,
    news: Notify,
}

struct Past {
    journal: Journal,
    mirror: Mirror,
    is_open: bool,
    /// Why nothing is heard, if nothing is.
    trouble: Option<Error>,
    asked: Instant,
    task: Option<AbortHandle>,
}

impl Onlookers {
    pub(crate) fn new(calls: Arc<Calls>) -> Self {
        Self { calls, followed: Mutex::default(), streams: AtomicU64::new(0) }
    }

    /// What [`Engine::events`](tenure_core::Engine::events) answers.
    pub(crate) async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        let following = self.following(scope)?;
        let opened = timeout(self.calls.timeout, following.opened());
        opened.await.map_err(|_| trouble::late(&self.calls.name))??;
        following.since(scope, after).await
    }

    /// Nobody looks on any more.
    pub(crate) fn stop(&self) {
        for following in self.followed().drain().map(|(_, following)| following) {
            following.end();
        }
    }

    fn following(&self, scope: &Scope) -> Result<Arc<Following>> {
        let key = match scope {
            Scope::Key(key) => Some(key.clone()),
            Scope::Prefix(_) => None,
        };
        let mut followed = self.followed();
        followed.retain(|_, following| !following.has_ended());
        if let Some(following) = followed.get(&key) {
            return Ok(following.clone());
        }
        if followed.len() >= FOLLOWED_MAX {
            return Err(Error::rejected(format!(
                "this client looks on at {FOLLOWED_MAX} lines already, which is as many as it can: look on at all lines with one prefix"
            )));
        }
        let first_cursor = self.streams.fetch_add(1, Ordering::Relaxed) * CURSORS;
        let following = Following::begin(self.calls.clone(), key.clone(), first_cursor);
        followed.insert(key, following.clone());
        Ok(following)
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<Option<Key>, Arc<Following>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Onlookers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Following {
    fn begin(calls: Arc<Calls>, key: Option<Key>, first_cursor: u64) -> Arc<Self> {
        let mut journal = Journal::default();
        journal.keep();
        let past = Past {
            journal,
            mirror: Mirror::default(),
            is_open: false,
            trouble: None,
            asked: Instant::now(),
            task: None,
        };
        let (past, news) = (Mutex::new(past), Notify::new());
        let following = Arc::new(Self { calls, key, first_cursor, past, news });
        let hears = follow(following.calls.clone(), Ear(following.clone()));
        let task = following.calls.home.spawn(hears).abort_handle();
        following.past().task = Some(task);
        following
    }

    fn end(&self) {
        if let Some(task) = &self.past().task {
            task.abort();
        }
    }

    fn has_ended(&self) -> bool {
        self.past().task.as_ref().is_some_and(AbortHandle::is_finished)
    }

    /// Returns once the stream hears, or says why it does not.
    async fn opened(&self) -> Result<()> {
        loop {
            let news = self.news.notified();
            {
                let past = self.past();
                if let Some(trouble) = &past.trouble {
                    return Err(trouble.clone());
                }
                if past.is_open {
                    return Ok(());
                }
            }
            news.await;
        }
    }

    async fn since(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        let Some(Cursor(mut after)) = after else {
            let cursor = Cursor(self.first_cursor + self.past().journal.end());
            return Ok(News { events: Vec::new(), cursor, missed: false });
        };
        loop {
            let news = self.news.notified();
            {
                let mut past = self.past();
                past.asked = Instant::now();
                let cursor = Cursor(self.first_cursor + past.journal.end());
                let known = after.checked_sub(self.first_cursor).filter(|after| *after < CURSORS);
                match known.and_then(|after| past.journal.since(after, scope)) {
                    None => return Ok(News { events: Vec::new(), cursor, missed: true }),
                    Some(events) if !events.is_empty() => {
                        return Ok(News { events, cursor, missed: false });
                    }
                    // What happened out of scope need not be remembered.
                    Some(_) => after = cursor.0,
                }
                if let Some(trouble) = &past.trouble {
                    return Err(trouble.clone());
                }
                if past.task.as_ref().is_some_and(AbortHandle::is_finished) {
                    return Ok(News { events: Vec::new(), cursor, missed: true });
                }
            }
            // Who waits is wanted: the stream goes on meanwhile.
            let _something = timeout(IDLE / 4, news).await;
        }
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts what is heard into the journal.
struct Ear(Arc<Following>);

impl Listener for Ear {
    fn stages(&self) -> Vec<Document> {
        let lines = if let Some(key) = &self.0.key {
            doc! { "documentKey._id": record(key) }
        } else {
            // Numbers and counts are no lines.
            doc! { "documentKey._id": { "$not": { "$regex": ":[nc]$" } } }
        };
        let gone = doc! { "documentKey": { "$exists": false } };
        vec![
            doc! { "$match": { "$or": [lines, gone] } },
            doc! { "$project": {
                "operationType": 1, "documentKey": 1, "fullDocument": 1, "updateDescription": 1,
            } },
        ]
    }

    async fn opened(&mut self, goes_on: bool) -> Result<()> {
        if !goes_on {
            let lines = if let Some(key) = &self.0.key {
                doc! { "_id": record(key) }
            } else {
                doc! { "reap": true }
            };
            let read = self.0.calls.read(&lines, &FIELDS).await;
            let mut past = self.0.past();
            match read {
                Ok(records) => past.mirror = Mirror::of(records),
                Err(error) => {
                    past.trouble = Some(error.clone());
                    self.0.news.notify_waiters();
                    return Err(error);
                }
            }
            if past.is_open {
                past.journal.gap();
            }
        }
        let mut past = self.0.past();
        (past.is_open, past.trouble) = (true, None);
        self.0.news.notify_waiters();
        Ok(())
    }

    async fn take(&mut self, event: &RawDocumentBuf) -> Result<()> {
        let Ok(event) = Document::try_from(event.as_ref()) else {
            return Err(trouble::strange(&self.0.calls.name));
        };
        let stranger = self.0.past().mirror.stranger(&event);
        let name = match stranger {
            Some(id) => self.0.calls.read(&doc! { "_id": id }, &NAME).await?,
            None => Vec::new(),
        };
        let mut past = self.0.past();
        past.mirror.learn(name);
        for event in past.mirror.apply(&event) {
            past.journal.push(event);
        }
        self.0.news.notify_waiters();
        Ok(())
    }

    fn failed(&mut self, error: &mongodb::error::Error) {
        self.0.past().trouble = Some(trouble::error(&self.0.calls.name, error));
        self.0.news.notify_waiters();
    }

    fn is_wanted(&self) -> bool {
        self.0.past().asked.elapsed() < IDLE
    }
}
