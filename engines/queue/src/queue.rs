//! One client of a store: its tickets, its sessions and its listeners.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Result, Runtime, Sampler};

use crate::contract::Store;
use crate::likely_free::LikelyFree;
use crate::onlooker::Onlooker;
use crate::parts::Parts;
use crate::session::{Session, end, keep_alive};
use crate::sessions::Sessions;

/// Pause of an onlooker between two reads, if the store cannot report changes.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Lines of tickets in a store: the nine verbs of [`Engine`](tenure_core::Engine).
pub struct Queue<S> {
    pub(crate) parts: Arc<Parts<S>>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) onlooker: Arc<Onlooker>,
    pub(crate) sampler: Sampler,
    /// Lines in which a part seems to be free, for callers that would not wait.
    pub(crate) fits: LikelyFree,
}

impl<S: Store> Queue<S> {
    /// Returns a client of this store. It sends its signs of life from `host`.
    pub fn new(store: S, host: Arc<dyn Runtime>) -> Self {
        Self {
            parts: Arc::new(Parts::new(store, host)),
            sessions: Arc::default(),
            onlooker: Arc::default(),
            sampler: Sampler::new(LOOK_PAUSE),
            fits: LikelyFree::new(),
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.parts.store
    }

    /// Returns the session for tickets of this ttl, opening or checking it if needed.
    pub(crate) async fn session(&self, ttl: Duration) -> Result<Arc<Session>> {
        let now = self.parts.host.now();
        if let Some(session) = self.sessions.living(ttl, now)
            && session.is_fresh(now)
        {
            return Ok(session);
        }
        let (parts, sessions) = (self.parts.clone(), self.sessions.clone());
        let opening = async move {
            loop {
                let session = living(&parts, &sessions, ttl).await?;
                if session.is_sound(&*parts.store, &*parts.host).await? {
                    return Ok(session);
                }
            }
        };
        self.parts.errand(opening).await
    }
}

/// Returns the session for tickets of this ttl, and opens it if there is none.
async fn living<S: Store>(
    parts: &Arc<Parts<S>>,
    sessions: &Arc<Sessions>,
    ttl: Duration,
) -> Result<Arc<Session>> {
    let now = || parts.host.now();
    if let Some(session) = sessions.living(ttl, now()) {
        return Ok(session);
    }
    let turn = sessions.turn().await;
    if let Some(session) = sessions.living(ttl, now()) {
        return Ok(session);
    }
    // If the caller gives up, the session is opened for the next caller.
    let (opens, sessions) = (parts.clone(), sessions.clone());
    let opening = async move {
        let _turn = turn;
        opens.in_time(open(&opens, &sessions, ttl)).await
    };
    parts.outlives_caller(opening).await
}

async fn open<S: Store>(
    parts: &Arc<Parts<S>>,
    sessions: &Sessions,
    ttl: Duration,
) -> Result<Arc<Session>> {
    let Parts { store, host, .. } = &**parts;
    for old in sessions.take_out(host.now()) {
        old.finish();
        host.spawn(Box::pin(end(Arc::downgrade(store), old, host.clone())));
    }
    if let Some(session) = sessions.nearest(ttl) {
        return Ok(session);
    }
    let (wanted, sent) = (sessions.wanted(ttl)?, host.now());
    let session = Session::new(store.open(wanted).await?, sent);
    if let Err(closed) = sessions.insert(ttl, &session) {
        session.finish();
        end(Arc::downgrade(store), session, host.clone()).await;
        return Err(closed);
    }
    let parts = Arc::downgrade(parts);
    let beat = move |session: &Arc<Session>| {
        if let Some(parts) = parts.upgrade() {
            parts.beat(session);
        }
    };
    let (kept, store) = (Arc::downgrade(&session), Arc::downgrade(store));
    host.spawn(Box::pin(keep_alive(kept, store, host.clone(), beat)));
    Ok(session)
}
