//! Watches: one for each node, however many wait for its change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::{Shared, poll_fn};
use tenure_core::Boxed;
use tokio::runtime::Handle;
use tokio::sync::watch;
use zookeeper_client::{EventType, OneshotWatcher, StateWatcher};

/// What is watched over one session.
#[derive(Clone, Default)]
pub(crate) struct Watches(Arc<Mutex<HashMap<String, Watched>>>);

/// A node that is watched.
struct Watched {
    /// The transaction that changed it last, when the watch was set.
    version: u64,
    stirred: watch::Sender<()>,
    event: Event,
    /// The connection on which the watch was set.
    states: StateWatcher,
}

/// One who waits for a change of a node.
pub(crate) struct Watch {
    stirred: watch::Receiver<()>,
    event: Event,
    states: StateWatcher,
}

/// What the server tells of a node, and in which transaction; 0 if that is not said.
type What = (EventType, u64);

/// The same, once it is told.
#[derive(Clone)]
struct Event(Arc<Mutex<Shared<Boxed<What>>>>);

impl Watches {
    /// Waits with others for a change of a node; `None` if it is not watched, or is not as it is known.
    pub(crate) fn join(&self, path: &str, version: u64) -> Option<Watch> {
        let all = self.lock();
        all.get(path).filter(|watched| watched.version == version).map(Watched::watch)
    }

    /// Whether a node is watched, and was at this version when the watch was set.
    pub(crate) fn has(&self, path: &str, version: u64) -> bool {
        self.lock().get(path).is_some_and(|watched| watched.version == version)
    }

    /// A watch was set on a node, which was at this version then; the connection was so before it was asked for.
    pub(crate) fn set(
        &self,
        path: String,
        version: u64,
        news: OneshotWatcher,
        states: StateWatcher,
        home: &Handle,
    ) -> Watch {
        let (event, stirred) = (Event::of(news), watch::Sender::new(()));
        let watched = Watched { version, stirred, event: event.clone(), states };
        let watch = watched.watch();
        self.lock().insert(path.clone(), watched);
        let all = self.clone();
        home.spawn(async move {
            // It comes, at the latest when the node or the session ends.
            event.come().await;
            all.fire(&path, version);
        });
        watch
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

impl Watched {
    fn watch(&self) -> Watch {
        let (event, states) = (self.event.clone(), self.states.clone());
        Watch { stirred: self.stirred.subscribe(), event, states }
    }
}

impl Watch {
    /// Ready once the node may be otherwise.
    pub(crate) async fn changed(&mut self) {
        // If the sender is gone, something happened, too.
        let _stirred = self.stirred.changed().await;
    }

    /// Whether the server has told that the node is gone, and in which transaction.
    pub(crate) fn gone(&self) -> Option<u64> {
        self.event.now().filter(|(what, _)| *what == EventType::NodeDeleted).map(|(_, at)| at)
    }

    /// Whether the connection is the one on which the watch was set.
    pub(crate) fn is_of_this_connection(&self) -> bool {
        self.states.clone().changed().now_or_never().is_none()
    }

    /// Whether the server has told anything of the node.
    pub(crate) fn has_told(&self) -> bool {
        self.event.now().is_some()
    }
}

impl Event {
    fn of(news: OneshotWatcher) -> Self {
        let event = news.changed().map(|event| {
            let at = u64::try_from(event.zxid).unwrap_or(0);
            (event.event_type, at)
        });
        Self(Arc::new(Mutex::new(event.boxed().shared())))
    }

    async fn come(&self) {
        let mut event = self.lock().clone();
        // Only one looks at a time: who looks beside another one would not be told what that one finds.
        poll_fn(|cx| {
            let _alone = self.lock();
            event.poll_unpin(cx)
        })
        .await;
    }

    fn now(&self) -> Option<What> {
        let alone = self.lock();
        alone.clone().now_or_never()
    }

    fn lock(&self) -> MutexGuard<'_, Shared<Boxed<What>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
