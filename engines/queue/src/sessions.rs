//! The sessions of one client: a few, of unequal ttl, each opened when it is first asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::{Error, Host, Result};
use tokio::sync::Mutex as AsyncMutex;

use crate::contract::{SessionId, Store};
use crate::session::Session;

/// So many sessions a client has at most at a time.
const SESSIONS_MAX: usize = 8;

/// By their ttl in whole seconds, which is what stores count in.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Mutex<BTreeMap<u64, Arc<Session>>>,
    /// One is opened at a time, so that a thousand who ask at once open one.
    opening: AsyncMutex<()>,
    /// The client was closed: no session is opened any more, whoever still waits.
    closed: AtomicBool,
}

impl Sessions {
    /// The session for tickets of this ttl, if one is open by which they may come in at once.
    pub(crate) fn sound(&self, ttl: Duration, host: &dyn Host) -> Option<Arc<Session>> {
        let session = self.living(whole_seconds(ttl), host)?;
        session.is_fresh(host.now()).then_some(session)
    }

    /// The session for tickets of this ttl, and whether it was opened by this call. If all there may be are in use, it is
    /// the next longer one that is open, or else the longest.
    pub(crate) async fn of<S: Store>(
        &self,
        ttl: Duration,
        store: &S,
        host: &dyn Host,
    ) -> Result<(Arc<Session>, bool)> {
        let seconds = whole_seconds(ttl);
        if let Some(session) = self.living(seconds, host) {
            return Ok((session, false));
        }
        let _alone = self.opening.lock().await;
        if let Some(session) = self.living(seconds, host) {
            return Ok((session, false));
        }
        if let Some(idle) = self.make_room() {
            // Its end may fail: then it lives for its ttl, with nothing in it.
            let _ended = store.end(idle.id).await;
        }
        if let Some(session) = self.nearest(seconds) {
            return Ok((session, false));
        }
        if self.is_closed() {
            return Err(closed());
        }
        let sent = host.now();
        let session = Session::new(store.open(Duration::from_secs(seconds)).await?, sent);
        {
            let mut open = self.open();
            if !self.is_closed() {
                open.insert(seconds, session.clone());
                return Ok((session, true));
            }
        }
        session.finish();
        // Its end may fail: then it lives for its ttl, with nothing in it.
        let _ended = store.end(session.id).await;
        Err(closed())
    }

    /// The session with this number, if it is one of this client's.
    pub(crate) fn find(&self, id: SessionId) -> Option<Arc<Session>> {
        self.open().values().find(|session| session.id == id).cloned()
    }

    /// All that are open. None is any more, and none will be.
    pub(crate) fn close(&self) -> Vec<Arc<Session>> {
        self.closed.store(true, Ordering::Release);
        std::mem::take(&mut *self.open()).into_values().collect()
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn living(&self, seconds: u64, host: &dyn Host) -> Option<Arc<Session>> {
        let mut open = self.open();
        let now = host.now();
        open.retain(|_, session| !session.is_over(now));
        open.get(&seconds).cloned()
    }

    /// Takes out one that no ticket lives by, if there is no room for another.
    fn make_room(&self) -> Option<Arc<Session>> {
        let mut open = self.open();
        if open.len() < SESSIONS_MAX {
            return None;
        }
        let idle = open.iter().find(|(_, session)| Arc::strong_count(session) == 1);
        let idle = idle.map(|(seconds, _)| *seconds)?;
        let session = open.remove(&idle)?;
        session.finish();
        Some(session)
    }

    fn nearest(&self, seconds: u64) -> Option<Arc<Session>> {
        let open = self.open();
        if open.len() < SESSIONS_MAX {
            return None;
        }
        let longer = open.range(seconds..).next().or_else(|| open.last_key_value());
        longer.map(|(_, session)| session.clone())
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> Error {
    Error::unavailable("these locks were closed: connect anew")
}

fn whole_seconds(ttl: Duration) -> u64 {
    (ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).max(1)
}
