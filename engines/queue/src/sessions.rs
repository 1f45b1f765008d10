//! The sessions of one client: one for each ttl, opened at first use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_core::sync::Mutex;
use tenure_core::{Error, Result, Time};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::contract::SessionId;
use crate::session::Session;

/// Maximum sessions of a client.
const SESSIONS_MAX: usize = 8;

/// Sessions by their ttl in whole seconds, which is the unit of stores.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<BTreeMap<u64, Arc<Session>>>,
    /// Sessions are opened one at a time, so that a thousand concurrent callers open one.
    opening: Arc<AsyncMutex<()>>,
    /// The client was closed: no session is opened any more, whether or not a caller waits.
    closed: AtomicBool,
}

impl Sessions {
    /// Returns the session for tickets of this ttl, if it is open.
    pub(crate) fn living(&self, ttl: Duration, now: Time) -> Option<Arc<Session>> {
        let open = self.open.lock();
        open.get(&whole_seconds(ttl)).filter(|session| !session.is_over(now)).cloned()
    }

    /// Waits for the permission to open one.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        self.opening.clone().lock_owned().await
    }

    /// Removes and returns the sessions that are over. If there is no room for another, also one
    /// that no ticket uses.
    pub(crate) fn take_out(&self, now: Time) -> Vec<Arc<Session>> {
        let mut open = self.open.lock();
        let over = open.values().filter(|session| session.is_over(now));
        let mut out: Vec<_> = over.cloned().collect();
        open.retain(|_, session| !session.is_over(now));
        if open.len() >= SESSIONS_MAX {
            let idle = open.iter().find(|(_, session)| Arc::strong_count(session) == 1);
            let idle = idle.map(|(seconds, _)| *seconds);
            out.extend(idle.and_then(|seconds| open.remove(&seconds)));
        }
        out
    }

    /// Returns the session for a further ttl if the maximum is in use: the next longer one, or else
    /// the longest.
    pub(crate) fn nearest(&self, ttl: Duration) -> Option<Arc<Session>> {
        let open = self.open.lock();
        if open.len() < SESSIONS_MAX {
            return None;
        }
        let longer = open.range(whole_seconds(ttl)..).next().or_else(|| open.last_key_value());
        longer.map(|(_, session)| session.clone())
    }

    /// Returns the ttl to open a session with, for tickets of this ttl.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the client was closed.
    pub(crate) fn wanted(&self, ttl: Duration) -> Result<Duration> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::unavailable("these locks were closed: connect anew"));
        }
        Ok(Duration::from_secs(whole_seconds(ttl)))
    }

    /// Adds an opened session.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the client was closed meanwhile.
    pub(crate) fn insert(&self, ttl: Duration, session: &Arc<Session>) -> Result<()> {
        let mut open = self.open.lock();
        let seconds = self.wanted(ttl)?.as_secs();
        open.insert(seconds, session.clone());
        Ok(())
    }

    /// Returns the session with this number, if it is one of this client's.
    pub(crate) fn find(&self, id: SessionId) -> Option<Arc<Session>> {
        self.open.lock().values().find(|session| session.id == id).cloned()
    }

    /// Removes and returns all open sessions. None is opened after that.
    pub(crate) fn close(&self) -> Vec<Arc<Session>> {
        let mut open = self.open.lock();
        self.closed.store(true, Ordering::Release);
        std::mem::take(&mut *open).into_values().collect()
    }
}

fn whole_seconds(ttl: Duration) -> u64 {
    (ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).max(1)
}
