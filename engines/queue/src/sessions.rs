//! The sessions of one client: a few, of unequal ttl, each opened when it is first asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::{Error, Result, Time};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::contract::SessionId;
use crate::session::Session;

/// So many sessions a client has at most at a time.
const SESSIONS_MAX: usize = 8;

/// By their ttl in whole seconds, which is what stores count in.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<BTreeMap<u64, Arc<Session>>>,
    /// One is opened at a time, so that a thousand who ask at once open one.
    opening: Arc<AsyncMutex<()>>,
    /// The client was closed: no session is opened any more, whoever still waits.
    closed: AtomicBool,
}

/// Whoever has it may open a session.
pub(crate) type Turn = OwnedMutexGuard<()>;

impl Sessions {
    /// The session for tickets of this ttl, if it is open.
    pub(crate) fn living(&self, ttl: Duration, now: Time) -> Option<Arc<Session>> {
        let open = self.open();
        open.get(&whole_seconds(ttl)).filter(|session| !session.is_over(now)).cloned()
    }

    /// The turn to open one.
    pub(crate) async fn turn(&self) -> Turn {
        self.opening.clone().lock_owned().await
    }

    /// Takes out those that are over; and one that no ticket lives by, if there is no room for another.
    pub(crate) fn take_out(&self, now: Time) -> Vec<Arc<Session>> {
        let mut open = self.open();
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

    /// The session that is used in place of another, if all there may be are in use: the next longer one, or else the longest.
    pub(crate) fn nearest(&self, ttl: Duration) -> Option<Arc<Session>> {
        let open = self.open();
        if open.len() < SESSIONS_MAX {
            return None;
        }
        let longer = open.range(whole_seconds(ttl)..).next().or_else(|| open.last_key_value());
        longer.map(|(_, session)| session.clone())
    }

    /// How long the session for tickets of this ttl is to live; not if the client was closed.
    pub(crate) fn wanted(&self, ttl: Duration) -> Result<Duration> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::unavailable("these locks were closed: connect anew"));
        }
        Ok(Duration::from_secs(whole_seconds(ttl)))
    }

    /// One was opened. The client may have been closed meanwhile.
    pub(crate) fn insert(&self, ttl: Duration, session: &Arc<Session>) -> Result<()> {
        let mut open = self.open();
        let seconds = self.wanted(ttl)?.as_secs();
        open.insert(seconds, session.clone());
        Ok(())
    }

    /// The session with this number, if it is one of this client's.
    pub(crate) fn find(&self, id: SessionId) -> Option<Arc<Session>> {
        self.open().values().find(|session| session.id == id).cloned()
    }

    /// All that are open. None is any more, and none will be.
    pub(crate) fn close(&self) -> Vec<Arc<Session>> {
        let mut open = self.open();
        self.closed.store(true, Ordering::Release);
        std::mem::take(&mut *open).into_values().collect()
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole_seconds(ttl: Duration) -> u64 {
    (ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).max(1)
}
