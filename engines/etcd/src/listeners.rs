//! The listeners of the watches of one stream, and the routing of answers to them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard, mpsc, oneshot};

use tenure_core::sync::Mutex;

use crate::wire::watch_request::RequestUnion;
use crate::wire::{WatchCancelRequest, WatchRequest, WatchResponse};

/// The watches of one stream.
#[derive(Default)]
pub(crate) struct StreamWatches {
    /// `None`: the stream has ended.
    listeners: Mutex<Option<Listeners>>,
    /// Answers name watches by the requested ids. etcd does so, and its `grpc-proxy` does not.
    keeps_ids: AtomicBool,
    /// Held while a watch is being created, until it is known that the answer will name it.
    creating: Arc<AsyncMutex<()>>,
    /// Watches without a listener that the member was not yet asked to cancel, because too many
    /// requests were in flight. At most the count of watches.
    unwanted: Mutex<Vec<i64>>,
    /// Notified when there is one more.
    pub(crate) more_unwanted: Notify,
    /// Count of answers.
    pub(crate) heard: AtomicU64,
    pub(crate) ended: Notify,
}

#[derive(Default)]
struct Listeners {
    by_id: HashMap<i64, WatchListener>,
    /// The ids that a proxy gave, and the requested ids.
    ids: HashMap<i64, i64>,
    /// The watch whose answer may have another id. It keeps the turn until that answer comes.
    creating: Option<(i64, OwnedMutexGuard<()>)>,
}

impl Listeners {
    /// Removes a listener. Returns it, and the id of its watch at the member.
    fn remove(&mut self, id: i64) -> Option<(WatchListener, i64)> {
        let listener = self.by_id.remove(&id)?;
        let given = listener.given.unwrap_or(id);
        self.ids.remove(&given);
        Some((listener, given))
    }

    /// Notes that a watch was created. Returns whether its id is the requested one, or else whether
    /// it still has a listener.
    fn created(&mut self, given: i64) -> Created {
        let is_first = self.creating.take_if(|(id, _)| *id == given).is_some();
        if is_first || self.by_id.contains_key(&given) {
            return Created::AsAsked;
        }
        let Some((id, _turn)) = self.creating.take() else { return Created::Unwanted };
        let Some(listener) = self.by_id.get_mut(&id) else { return Created::Unwanted };
        listener.given = Some(given);
        self.ids.insert(given, id);
        Created::Otherwise
    }
}

/// How an answer names a watch that was created.
#[derive(PartialEq, Eq)]
enum Created {
    AsAsked,
    Otherwise,
    Unwanted,
}

impl StreamWatches {
    pub(crate) fn new() -> Arc<Self> {
        let listeners = Mutex::new(Some(Listeners::default()));
        Arc::new(Self { listeners, ..Self::default() })
    }

    /// Waits for the turn to create a watch: one at a time, unless answers are known to use the
    /// requested ids.
    pub(crate) async fn turn(&self) -> Option<OwnedMutexGuard<()>> {
        let keeps_ids = || self.keeps_ids.load(Ordering::Acquire);
        if keeps_ids() {
            return None;
        }
        let turn = self.creating.clone().lock_owned().await;
        (!keeps_ids()).then_some(turn)
    }

    /// Adds a listener, unless the stream has ended.
    #[must_use]
    pub(crate) fn insert(
        &self,
        id: i64,
        listener: WatchListener,
        turn: Option<OwnedMutexGuard<()>>,
    ) -> bool {
        let mut all = self.listeners.lock();
        let Some(all) = all.as_mut() else { return false };
        all.by_id.insert(id, listener);
        if let Some(turn) = turn {
            all.creating = Some((id, turn));
        }
        true
    }

    /// Returns whether all other callers that create a watch wait for this one.
    pub(crate) fn has_turn(&self, id: i64) -> bool {
        let all = self.listeners.lock();
        all.as_ref().is_some_and(|all| all.creating.as_ref().is_some_and(|(one, _)| *one == id))
    }

    /// Removes a listener. Returns the id of its watch at the member.
    pub(crate) fn remove(&self, id: i64) -> i64 {
        let removed = self.listeners.lock().as_mut().and_then(|all| all.remove(id));
        // Dropped outside of the lock.
        removed.map_or(id, |(_, given)| given)
    }

    /// Ends the stream. All listeners read again.
    pub(crate) fn end(&self) {
        let ended = self.listeners.lock().take();
        // Dropped outside of the lock.
        drop(ended);
        self.ended.notify_one();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.listeners.lock().is_none()
    }

    /// Returns the request that cancels the next watch without a listener.
    pub(crate) fn unwanted(&self) -> Option<WatchRequest> {
        self.unwanted.lock().pop().map(cancel)
    }

    pub(crate) fn hear(&self, answer: WatchResponse) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        // Dropped outside of the lock.
        drop(self.pass_on(answer));
    }

    /// Passes an answer to its listener. Returns the listener if it is removed by that.
    fn pass_on(&self, mut answer: WatchResponse) -> Option<WatchListener> {
        let mut all = self.listeners.lock();
        let all = all.as_mut()?;
        if answer.watch_id < 0 && answer.canceled {
            // Late versions do not name the watch that they refuse. It is one of those that have
            // not begun.
            all.creating = None;
            for (_, listener) in all.by_id.extract_if(|_, listener| listener.begun.is_some()) {
                if let Some(begun) = listener.begun {
                    // The caller may have given up.
                    let _ = begun.send(Err(answer.cancel_reason.clone()));
                }
            }
            return None;
        }
        if answer.created {
            match all.created(answer.watch_id) {
                Created::AsAsked => self.keeps_ids.store(true, Ordering::Release),
                Created::Otherwise => {}
                Created::Unwanted => self.is_unwanted(answer.watch_id),
            }
        }
        let id = all.ids.get(&answer.watch_id).copied().unwrap_or(answer.watch_id);
        let listener = all.by_id.get_mut(&id)?;
        if let Some(begun) = listener.begun.take() {
            let at = answer.header.map_or(0, |header| header.revision);
            let outcome = if answer.canceled { Err(answer.cancel_reason.clone()) } else { Ok(at) };
            // The caller may have given up.
            let _ = begun.send(outcome);
        }
        let after = listener.after;
        answer.events.retain(|event| event.kv.as_ref().is_some_and(|kv| kv.mod_revision > after));
        let is_over = answer.canceled || answer.compact_revision > 0;
        // The end of a watch is news, too.
        let is_news = !answer.events.is_empty() || is_over;
        let is_full = is_news && listener.queue.try_send(answer).is_err();
        let is_out = is_over || is_full;
        is_out.then(|| all.remove(id)).flatten().map(|(listener, _)| listener)
    }

    /// Notes a watch that the member has to cancel.
    pub(crate) fn is_unwanted(&self, given: i64) {
        self.unwanted.lock().push(given);
        self.more_unwanted.notify_one();
    }
}

pub(crate) fn cancel(watch_id: i64) -> WatchRequest {
    let cancel = WatchCancelRequest { watch_id };
    WatchRequest { request_union: Some(RequestUnion::CancelRequest(cancel)) }
}

/// A listener of one key or span.
pub(crate) struct WatchListener {
    /// Receives the revision at which the member has begun to watch.
    pub(crate) begun: Option<oneshot::Sender<Result<i64, String>>>,
    /// Receives the answers.
    pub(crate) queue: mpsc::Sender<WatchResponse>,
    /// Minimum revision of news: members were seen to replay the past.
    pub(crate) after: i64,
    /// The id that a proxy gave to the watch.
    pub(crate) given: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_when_the_stream_has_ended_is_told_so() {
        let watched = StreamWatches::new();
        let listener = || {
            let (begun, has_begun) = oneshot::channel();
            let (queue, _) = mpsc::channel(1);
            (WatchListener { begun: Some(begun), queue, after: 0, given: None }, has_begun)
        };
        let ((one, mut has_begun), (late, _)) = (listener(), listener());
        assert!(watched.insert(1, one, None));
        watched.end();
        assert!(
            has_begun.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed)
        );
        assert!(watched.has_ended() && !watched.insert(2, late, None));
    }
}
