//! A peer is another session: dead as soon as its file is gone, or can be locked.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::record::SessionId;
use crate::session;
use crate::watchers::lock;

/// More files than these are not kept open without need.
const PEERS_MAX: usize = 256;
/// A thread that only waits for a lock needs little room.
const STACK_BYTES: usize = 128 * 1024;

/// The other sessions that this engine has met.
pub(crate) struct Peers {
    dir: PathBuf,
    known: Mutex<HashMap<SessionId, Arc<Peer>>>,
}

struct Peer {
    /// `None`: there is no such file.
    file: Option<File>,
    watched: AtomicBool,
}

impl Peers {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, known: Mutex::default() }
    }

    /// Whether a session is dead. What cannot be found out counts as alive.
    pub(crate) fn is_dead(&self, id: SessionId) -> bool {
        self.peer(id).is_ok_and(|peer| match &peer.file {
            None => true,
            Some(file) => file.try_lock_shared().is_ok(),
        })
    }

    /// Calls `died` from a thread of its own, once the session is dead. One thread for each
    /// session at most; it sleeps in the kernel, which wakes it whatever the session died of.
    pub(crate) fn watch(&self, id: SessionId, died: impl FnOnce() + Send + 'static) {
        let Ok(peer) = self.peer(id) else {
            tracing::warn!(session = %id, "cannot watch over a session; a heartbeat will look");
            return;
        };
        if peer.watched.swap(true, Ordering::AcqRel) {
            return;
        }
        let watched = peer.clone();
        let started = thread::Builder::new()
            .name("tenure-file-peer".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                peer.outlive();
                died();
            });
        if let Err(error) = started {
            watched.watched.store(false, Ordering::Release);
            tracing::warn!(%error, "no thread to watch over a session; a heartbeat will look");
        }
    }

    /// Forgets a session that is dead, and removes its files.
    pub(crate) fn forget(&self, id: SessionId) {
        lock(&self.known).remove(&id);
        session::remove(&self.dir, id);
    }

    /// What a session says about itself: its process, and its program.
    pub(crate) fn describe(&self, id: SessionId) -> String {
        let text = std::fs::read_to_string(session::path(&self.dir, id)).unwrap_or_default();
        match text.split_once(' ') {
            Some((pid, program)) => format!("process {pid} ({})", program.trim_end()),
            None => format!("session {id}"),
        }
    }

    fn peer(&self, id: SessionId) -> io::Result<Arc<Peer>> {
        let mut known = lock(&self.known);
        if let Some(peer) = known.get(&id) {
            return Ok(peer.clone());
        }
        if known.len() >= PEERS_MAX {
            known.retain(|_, peer| peer.watched.load(Ordering::Acquire));
        }
        let file = match File::open(session::path(&self.dir, id)) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let peer = Arc::new(Peer { file, watched: AtomicBool::new(false) });
        known.insert(id, peer.clone());
        Ok(peer)
    }
}

impl Peer {
    fn outlive(&self) {
        let Some(file) = &self.file else { return };
        while let Err(error) = file.lock_shared() {
            if error.kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
    }
}
