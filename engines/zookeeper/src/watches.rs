//! Watches: one for each node, however many wait for its change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::Boxed;
use tokio::sync::watch;
use zookeeper_client::OneshotWatcher;

/// What is watched over one session.
#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<HashMap<String, Watched>>>);

/// A node that is watched.
struct Watched {
    /// The transaction that changed it last, when the watch was set.
    version: u64,
    stirred: watch::Sender<()>,
}

impl Watches {
    /// Ready once a node that is watched already may be otherwise; `None` if it is not watched, or is not as it is known.
    pub(crate) fn join(&self, path: &str, version: u64) -> Option<Boxed<()>> {
        let all = self.lock();
        let watched = all.get(path).filter(|watched| watched.version == version)?;
        Some(stirs(watched.stirred.subscribe()))
    }

    /// Whether a node is watched, and was at this version when the watch was set.
    pub(crate) fn has(&self, path: &str, version: u64) -> bool {
        self.lock().get(path).is_some_and(|watched| watched.version == version)
    }

    /// A watch was set on a node, which was at this version then.
    pub(crate) fn set(&self, path: String, version: u64, watcher: OneshotWatcher) -> Boxed<()> {
        let (stirred, seen) = watch::channel(());
        self.lock().insert(path.clone(), Watched { version, stirred });
        let all = self.clone();
        tokio::spawn(async move {
            // It comes, at the latest when the node or the session ends.
            let _event = watcher.changed().await;
            all.fire(&path, version);
        });
        stirs(seen)
    }

    /// All who wait look again.
    pub(crate) fn stir(&self) {
        for watched in self.lock().values() {
            let _nobody_waits = watched.stirred.send(());
        }
    }

    fn fire(&self, path: &str, version: u64) {
        let mut all = self.lock();
        // A later watch may have been set beside this one, which fires by itself.
        if all.get(path).is_some_and(|watched| watched.version <= version)
            && let Some(watched) = all.remove(path)
        {
            let _nobody_waits = watched.stirred.send(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stirs(mut seen: watch::Receiver<()>) -> Boxed<()> {
    Box::pin(async move {
        // If the sender is gone, something happened, too.
        let _stirred = seen.changed().await;
    })
}
