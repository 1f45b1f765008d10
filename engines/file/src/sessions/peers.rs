//! A peer is another session: dead as soon as its file is gone, or can be locked.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::sync::Arc;

use tenure_core::sync::Mutex;

use crate::log::record::OwnerId;
use crate::os::deaths::{self, Vigil};
use crate::os::dir::Dir;
use crate::os::flock;
use crate::sessions::session;

/// Maximum files that are kept open without need.
const PEERS_MAX: usize = 256;
/// Maximum bytes of a session's description.
const DESCRIPTION_BYTES_MAX: u64 = 4096;

/// The other sessions that this engine has met.
pub(crate) struct PeerSessions {
    dir: Arc<Dir>,
    known: Mutex<HashMap<OwnerId, Peer>>,
    /// Sessions that cannot be looked at, and why.
    unseen: Mutex<BTreeMap<OwnerId, String>>,
}

/// Whether a session is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// It is, or cannot be.
    Yes,
    /// It has no file, and the callback is not called.
    IsDead,
}

struct Peer {
    /// `None`: there is no such file.
    file: Option<Arc<File>>,
    /// The watch for its death.
    vigil: Option<Vigil>,
}

impl PeerSessions {
    pub(crate) fn new(dir: Arc<Dir>) -> Self {
        Self { dir, known: Mutex::default(), unseen: Mutex::default() }
    }

    /// Returns whether a session is dead. An unknown state counts as alive.
    pub(crate) fn is_dead(&self, id: OwnerId) -> bool {
        let file = self.peer(&mut self.known.lock(), id).map(|peer| peer.file.clone());
        file.is_ok_and(|file| file.is_none_or(|file| flock::is_free(&file)))
    }

    /// Calls `died` from another thread, once the session is dead in any way.
    pub(crate) fn watch(&self, id: OwnerId, died: impl FnOnce() + Send + 'static) -> Watched {
        // Under one lock: another thread may forget a session that has no watch yet.
        let mut known = self.known.lock();
        let Ok(peer) = self.peer(&mut known, id) else { return Watched::Yes };
        let Some(file) = &peer.file else { return Watched::IsDead };
        if peer.vigil.is_some() {
            return Watched::Yes;
        }
        match deaths::watch(&self.dir.path_of(&id.to_string()), file, Box::new(died)) {
            Ok(vigil) => peer.vigil = Some(vigil),
            Err(error) => {
                tracing::warn!(%error, session = %id, "cannot watch over a session; a heartbeat will look");
            }
        }
        Watched::Yes
    }

    /// Forgets a session that is dead, and removes its files.
    pub(crate) fn forget(&self, id: OwnerId) {
        self.known.lock().remove(&id);
        self.unseen.lock().remove(&id);
        session::remove(&self.dir, id);
    }

    /// Ends all watches.
    pub(crate) fn close(&self) {
        self.known.lock().clear();
    }

    /// Returns the description of a session: its process, and its program.
    pub(crate) fn describe(&self, id: OwnerId) -> String {
        let mut text = String::new();
        if let Ok(file) = self.dir.open_to_read(&id.to_string()) {
            // Any part of it will do.
            let _ = file.take(DESCRIPTION_BYTES_MAX).read_to_string(&mut text);
        }
        match text.split_once(' ') {
            Some((pid, program)) => format!("process {pid} ({})", program.trim_end()),
            None => format!("session {id}"),
        }
    }

    /// Notes that a session cannot be looked at: its tickets stay, whether or not it lives.
    pub(crate) fn cannot_see(&self, id: OwnerId, error: &io::Error) {
        let path = self.dir.path_of(&id.to_string());
        let sentence = format!(
            "cannot look at {} ({error}): its tickets stay in their lines, even if its process is dead; once that has ended, remove the file",
            path.display()
        );
        if self.unseen.lock().insert(id, sentence.clone()).is_none() {
            tracing::warn!("{sentence}");
        }
    }

    /// Returns the warnings about sessions that cannot be looked at.
    pub(crate) fn unseen(&self) -> Vec<String> {
        self.unseen.lock().values().cloned().collect()
    }

    fn peer<'a>(
        &self,
        known: &'a mut HashMap<OwnerId, Peer>,
        id: OwnerId,
    ) -> io::Result<&'a mut Peer> {
        if !known.contains_key(&id) {
            if known.len() >= PEERS_MAX {
                known.retain(|_, peer| peer.vigil.is_some());
            }
            let file = match self.dir.open_to_read(&id.to_string()) {
                Ok(file) => Some(Arc::new(file)),
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                Err(error) => {
                    self.cannot_see(id, &error);
                    return Err(error);
                }
            };
            known.insert(id, Peer { file, vigil: None });
        }
        Ok(known.get_mut(&id).expect("it was just inserted"))
    }
}
