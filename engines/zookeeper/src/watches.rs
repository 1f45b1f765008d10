//! Watches: one for each node, at any count of callers that wait for its change. Their total is
//! limited to what survives a new connection: see the README, *Work-arounds for the client crate*.

use std::collections::HashMap;
use std::future::pending;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt as _;
use futures_util::future::{Either, Shared, poll_fn, select};
use tenure_core::BoxFuture;
use tenure_core::sync::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use zookeeper_client::{EventType, OneshotWatcher, StateWatcher};

/// Maximum bytes of the paths of all nodes watched over one session.
const WATCHED_BYTES_MAX: u32 = 120 * 1024;

/// The watches of one session.
#[derive(Clone)]
pub(crate) struct NodeWatches {
    nodes: Arc<Mutex<HashMap<String, WatchedNode>>>,
    /// A permit for each byte of a path.
    room: Arc<Semaphore>,
}

/// The watches of a session. Dropping this ends them: the client crate panics if a watch is polled
/// after its session was given up.
pub(crate) struct UntilDropped {
    pub(crate) watches: NodeWatches,
    /// The task that makes them read again.
    pub(crate) stirs: AbortHandle,
}

/// A watched node.
struct WatchedNode {
    /// The transaction that changed it last, when the watch was set.
    version: u64,
    stirred: watch::Sender<()>,
    event: NodeEvent,
    /// The connection on which the watch was set.
    states: StateWatcher,
    _room: OwnedSemaphorePermit,
    /// Dropping this ends the watch.
    _kept: oneshot::Sender<()>,
}

/// A caller that waits for a change of a node, if there was room for its watch.
pub(crate) struct NodeWatch(Option<Waits>);

struct Waits {
    stirred: watch::Receiver<()>,
    event: NodeEvent,
    states: StateWatcher,
}

/// A server's event of a node, and its transaction; 0 if that is not reported.
type EventReport = (EventType, u64);

/// The future event; `None` once the session was dropped.
#[derive(Clone)]
struct NodeEvent(Arc<Mutex<Option<Shared<BoxFuture<EventReport>>>>>);

/// The event of a node whose session was dropped: it is not watched any more.
const DROPPED: EventReport = (EventType::Session, 0);

impl NodeWatches {
    pub(crate) fn new() -> Self {
        Self { nodes: Arc::default(), room: Arc::new(Semaphore::new(WATCHED_BYTES_MAX as usize)) }
    }

    /// Joins the watch of a node; `None` if it is not watched, or has changed.
    pub(crate) fn join(&self, path: &str, version: u64) -> Option<NodeWatch> {
        let all = self.nodes.lock();
        all.get(path).filter(|watched| watched.version == version).map(WatchedNode::watch)
    }

    /// Returns whether a node is watched, and had this version when the watch was set.
    pub(crate) fn has(&self, path: &str, version: u64) -> bool {
        self.nodes.lock().get(path).is_some_and(|watched| watched.version == version)
    }

    /// Returns room for a watch on a path of this length, which the caller then sets. If there is
    /// none, drops watches without callers. Until then it is cheaper to keep them.
    pub(crate) fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).ok()?;
        let room = || self.room.clone().try_acquire_many_owned(bytes).ok();
        room().or_else(|| {
            self.give_up_unwanted();
            room()
        })
    }

    fn give_up_unwanted(&self) {
        let is_unwanted =
            |_: &String, watched: &mut WatchedNode| watched.stirred.receiver_count() == 0;
        let unwanted: Vec<_> = self.nodes.lock().extract_if(is_unwanted).collect();
        // Dropped outside of the lock.
        drop(unwanted);
    }

    /// Adds a watch of a node that had this version when it was set. The connection had this state
    /// before the request.
    pub(crate) fn set(
        &self,
        room: OwnedSemaphorePermit,
        path: String,
        version: u64,
        news: OneshotWatcher,
        states: StateWatcher,
    ) -> NodeWatch {
        let (event, stirred) = (NodeEvent::of(news), watch::Sender::new(()));
        let (kept, given_up) = oneshot::channel();
        let event_now = event.clone();
        let watched =
            WatchedNode { version, stirred, event: event_now, states, _room: room, _kept: kept };
        let watch = watched.watch();
        let before = self.nodes.lock().insert(path.clone(), watched);
        // Dropped outside of the lock.
        drop(before);
        let all = self.clone();
        tokio::spawn(async move {
            // The event comes at the latest when the node or the session ends.
            if let Either::Left(_) = select(pin!(event.come()), given_up).await {
                all.fire(&path, version);
            }
        });
        watch
    }

    /// Makes all callers read again.
    pub(crate) fn stir(&self) {
        for watched in self.nodes.lock().values() {
            let _ = watched.stirred.send(()); // no caller may wait
        }
    }

    /// Ends all watches, because the session is dropped. All callers read again.
    fn end(&self) {
        let ended: Vec<_> = self.nodes.lock().drain().collect();
        for (_, watched) in &ended {
            let news = watched.event.0.lock().take();
            drop(news);
        }
    }

    fn fire(&self, path: &str, version: u64) {
        let mut all = self.nodes.lock();
        // A later watch may have been set beside this one, which fires by itself.
        if all.get(path).is_some_and(|watched| watched.version <= version)
            && let Some(watched) = all.remove(path)
        {
            let _ = watched.stirred.send(()); // no caller may wait
        }
    }
}

impl Deref for UntilDropped {
    type Target = NodeWatches;

    fn deref(&self) -> &NodeWatches {
        &self.watches
    }
}

impl Drop for UntilDropped {
    fn drop(&mut self) {
        self.stirs.abort();
        self.watches.end();
    }
}

impl WatchedNode {
    fn watch(&self) -> NodeWatch {
        let (event, states) = (self.event.clone(), self.states.clone());
        NodeWatch(Some(Waits { stirred: self.stirred.subscribe(), event, states }))
    }
}

impl NodeWatch {
    /// Returns a watch without room. It reports nothing, and its caller reads again with its next
    /// sign of life.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Ready once the node may have changed.
    pub(crate) async fn changed(&mut self) {
        match &mut self.0 {
            // If the sender is gone, something happened, too.
            Some(waits) => drop(waits.stirred.changed().await),
            None => pending().await,
        }
    }

    /// Returns the transaction in which the node was removed, if the server has reported that.
    pub(crate) fn gone(&self) -> Option<u64> {
        let told = self.0.as_ref()?.event.now();
        told.filter(|(what, _)| *what == EventType::NodeDeleted).map(|(_, at)| at)
    }

    /// Returns whether the node is watched, and the server has reported nothing of it.
    pub(crate) fn has_told_nothing(&self) -> bool {
        self.0.as_ref().is_some_and(|waits| waits.event.now().is_none())
    }

    /// Returns whether the connection is the one on which the watch was set.
    pub(crate) fn is_of_this_connection(&self) -> bool {
        let states = self.0.as_ref().map(|waits| waits.states.clone());
        states.is_some_and(|mut states| states.changed().now_or_never().is_none())
    }
}

impl NodeEvent {
    fn of(news: OneshotWatcher) -> Self {
        let event = news.changed().map(|event| {
            let at = u64::try_from(event.zxid).unwrap_or(0);
            (event.event_type, at)
        });
        Self(Arc::new(Mutex::new(Some(event.boxed().shared()))))
    }

    async fn come(&self) {
        let mut event = self.0.lock().clone();
        // One poll at a time: a concurrent poll would not get the event that the other one finds.
        poll_fn(|cx| {
            let alone = self.0.lock();
            let event = event.as_mut().filter(|_| alone.is_some());
            event.map_or(Poll::Ready(DROPPED), |event| event.poll_unpin(cx))
        })
        .await;
    }

    fn now(&self) -> Option<EventReport> {
        let alone = self.0.lock();
        alone.as_ref().map_or(Some(DROPPED), |event| event.clone().now_or_never())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_bytes_and_again_once_a_watch_has_fired() {
        let (watches, most) = (NodeWatches::new(), WATCHED_BYTES_MAX as usize);
        let room = watches.room(most - 1);
        assert!(room.is_some() && watches.room(2).is_none());
        let last = watches.room(1);
        assert!(last.is_some() && watches.room(1).is_none());
        drop(room);
        assert!(watches.room(2).is_some());
    }
}
