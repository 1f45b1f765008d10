//! The common state of visits: the directories of a store, this engine's own session, the known
//! other sessions, and the waiters of this process.

use std::sync::Arc;
use std::time::SystemTime;

use tenure_core::{Error, Result};

use crate::os::dir::Dir;
use crate::sessions::peers::PeerSessions;
use crate::sessions::session::{self, OwnSession};
use crate::trouble::{self, refused};
use crate::visits::mark;
use crate::waking::watchers::Watchers;

/// The common state of visits.
pub(crate) struct StoreContext {
    pub(crate) root: Dir,
    pub(crate) books: Dir,
    pub(crate) session: OwnSession,
    pub(crate) sessions: Arc<Dir>,
    pub(crate) peers: PeerSessions,
    pub(crate) watchers: Watchers,
}

impl StoreContext {
    /// Opens the store in this directory, with a new session in it.
    pub(crate) fn open(root: Dir) -> Result<Self> {
        let (books, sessions) = mark::make(&root)?;
        let sessions = Arc::new(sessions);
        let path = sessions.path().to_owned();
        let peers = PeerSessions::new(sessions.clone());
        let unseen =
            session::sweep(&sessions).map_err(|error| refused("look into", &path, error))?;
        for (id, error) in unseen {
            peers.cannot_see(id, &error);
        }
        let session =
            OwnSession::begin(&sessions).map_err(|error| refused("write to", &path, error))?;
        Ok(Self { root, books, session, sessions, peers, watchers: Watchers::default() })
    }

    /// Returns an error if this engine's session is no longer there.
    pub(crate) fn check_session(&self) -> Result<()> {
        if self.session.is_over() {
            return Err(Error::unavailable(
                "this store was closed by its own program: open it again",
            ));
        }
        if self.session.is_gone() { Err(trouble::removed()) } else { Ok(()) }
    }
}

/// Returns the microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
