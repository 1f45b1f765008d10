//! One client of a store: its tickets, its sessions, and who listens for what.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Host, Result, Sampler};

use crate::contract::Store;
use crate::onlooker::Onlooker;
use crate::parts::Parts;
use crate::session::{Session, keep_alive};
use crate::sessions::Sessions;

/// How long an onlooker rests between two looks, where the store cannot tell what happens.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Lines of tickets in a store: the nine verbs of [`Engine`](tenure_core::Engine).
pub struct Queue<S> {
    pub(crate) parts: Arc<Parts<S>>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) onlooker: Arc<Onlooker>,
    pub(crate) sampler: Sampler,
}

impl<S: Store> Queue<S> {
    /// A client of this store; its signs of life are given on `host`.
    pub fn new(store: S, host: Arc<dyn Host>) -> Self {
        Self {
            parts: Arc::new(Parts::new(store, host)),
            sessions: Arc::default(),
            onlooker: Arc::default(),
            sampler: Sampler::new(LOOK_PAUSE),
        }
    }

    /// The store itself.
    pub fn store(&self) -> &S {
        &self.parts.store
    }

    /// The session for tickets of this ttl, which lives on.
    pub(crate) async fn session(&self, ttl: Duration) -> Result<Arc<Session>> {
        let Parts { host, .. } = &*self.parts;
        if let Some(session) = self.sessions.sound(ttl, &**host) {
            return Ok(session);
        }
        let (parts, sessions) = (self.parts.clone(), self.sessions.clone());
        let opening = async move {
            loop {
                let session = open_session(&parts, &sessions, ttl).await?;
                if session.is_sound(&*parts.store, &*parts.host).await? {
                    return Ok(session);
                }
            }
        };
        self.parts.errand(opening).await
    }
}

async fn open_session<S: Store>(
    parts: &Arc<Parts<S>>,
    sessions: &Sessions,
    ttl: Duration,
) -> Result<Arc<Session>> {
    let Parts { store, host, .. } = &**parts;
    let (session, is_new) = sessions.of(ttl, &**store, &**host).await?;
    if is_new {
        let parts = Arc::downgrade(parts);
        let beat = move |session: &Session| {
            if let Some(parts) = parts.upgrade() {
                parts.beat(session);
            }
        };
        let (session, store) = (Arc::downgrade(&session), Arc::downgrade(store));
        host.spawn(Box::pin(keep_alive(session, store, host.clone(), beat)));
    }
    Ok(session)
}
