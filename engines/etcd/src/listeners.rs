//! What listens to the watches of one stream, and how answers find it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard, mpsc, oneshot};

use crate::wire::watch_request::RequestUnion;
use crate::wire::{Event, WatchCancelRequest, WatchRequest, WatchResponse};

/// What is watched over one stream.
#[derive(Clone)]
pub(crate) struct Watched(pub(crate) Arc<Inner>);

#[derive(Default)]
pub(crate) struct Inner {
    /// `None`: the stream has ended.
    listeners: Mutex<Option<Listeners>>,
    /// The answer names watches by the ids that were asked for. etcd does so, and its `grpc-proxy` does not.
    keeps_ids: AtomicBool,
    /// Held while a watch is being created, until it is known that the answer will name it.
    creating: Arc<AsyncMutex<()>>,
    /// Those of no more use of which the member could not be told at once. They are as many as there were watches, at most.
    unwanted: Mutex<Vec<i64>>,
    /// Rung when there is one more.
    pub(crate) more_unwanted: Notify,
    /// How many answers came.
    pub(crate) heard: AtomicU64,
    pub(crate) ended: Notify,
}

#[derive(Default)]
struct Listeners {
    by_id: HashMap<i64, Listener>,
    /// The ids that a proxy gave, and the ids that were asked for.
    ids: HashMap<i64, i64>,
    /// The watch whose answer may have another id; it keeps the turn until that answer comes.
    creating: Option<(i64, OwnedMutexGuard<()>)>,
}

impl Listeners {
    /// The listener, and the id that its watch has at the member.
    fn remove(&mut self, id: i64) -> Option<(Listener, i64)> {
        let listener = self.by_id.remove(&id)?;
        let given = listener.given.unwrap_or(id);
        self.ids.remove(&given);
        Some((listener, given))
    }

    /// A watch was created. Answers whether its id is the one that was asked for, or else whether anyone still wants it.
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

impl Watched {
    pub(crate) fn new() -> Self {
        let listeners = Mutex::new(Some(Listeners::default()));
        Self(Arc::new(Inner { listeners, ..Inner::default() }))
    }

    /// The turn to create a watch: one at a time, unless answers are known to name watches as they were asked for.
    pub(crate) async fn turn(&self) -> Option<OwnedMutexGuard<()>> {
        let keeps_ids = || self.0.keeps_ids.load(Ordering::Acquire);
        if keeps_ids() {
            return None;
        }
        let turn = self.0.creating.clone().lock_owned().await;
        (!keeps_ids()).then_some(turn)
    }

    /// Not if the stream has ended: nobody would be told of anything.
    #[must_use]
    pub(crate) fn insert(
        &self,
        id: i64,
        listener: Listener,
        turn: Option<OwnedMutexGuard<()>>,
    ) -> bool {
        let mut all = self.listeners();
        let Some(all) = all.as_mut() else { return false };
        all.by_id.insert(id, listener);
        if let Some(turn) = turn {
            all.creating = Some((id, turn));
        }
        true
    }

    /// Whether all who want to create a watch wait for this one.
    pub(crate) fn has_turn(&self, id: i64) -> bool {
        let all = self.listeners();
        all.as_ref().is_some_and(|all| all.creating.as_ref().is_some_and(|(one, _)| *one == id))
    }

    /// Answers the id that the watch has at the member.
    pub(crate) fn remove(&self, id: i64) -> i64 {
        let removed = self.listeners().as_mut().and_then(|all| all.remove(id));
        // What it would have told goes outside of the lock.
        removed.map_or(id, |(_, given)| given)
    }

    /// The stream has ended: whoever waits looks again.
    pub(crate) fn end(&self) {
        let ended = self.listeners().take();
        // What it would have told goes outside of the lock.
        drop(ended);
        self.0.ended.notify_one();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.listeners().is_none()
    }

    fn listeners(&self) -> MutexGuard<'_, Option<Listeners>> {
        lock(&self.0.listeners)
    }

    /// The request that ends the next watch of those of which the member has yet to be told.
    pub(crate) fn unwanted(&self) -> Option<WatchRequest> {
        lock(&self.0.unwanted).pop().map(cancel)
    }

    pub(crate) fn hear(&self, answer: WatchResponse) {
        self.0.heard.fetch_add(1, Ordering::Relaxed);
        // What it would have told goes outside of the lock.
        drop(self.pass_on(answer));
    }

    /// Answers the listener that hears nothing more.
    fn pass_on(&self, mut answer: WatchResponse) -> Option<Listener> {
        let mut all = self.listeners();
        let all = all.as_mut()?;
        if answer.watch_id < 0 && answer.canceled {
            // Late versions do not say which watch they refuse: it is one of those that have not begun.
            all.creating = None;
            for (_, listener) in all.by_id.extract_if(|_, listener| listener.begun.is_some()) {
                if let Some(begun) = listener.begun {
                    // Who asked may have given up.
                    let _gone = begun.send(Err(answer.cancel_reason.clone()));
                }
            }
            return None;
        }
        if answer.created {
            match all.created(answer.watch_id) {
                Created::AsAsked => self.0.keeps_ids.store(true, Ordering::Release),
                Created::Otherwise => {}
                Created::Unwanted => self.is_unwanted(answer.watch_id),
            }
        }
        let id = all.ids.get(&answer.watch_id).copied().unwrap_or(answer.watch_id);
        let listener = all.by_id.get_mut(&id)?;
        if let Some(begun) = listener.begun.take() {
            let at = answer.header.map_or(0, |header| header.revision);
            let outcome = if answer.canceled { Err(answer.cancel_reason.clone()) } else { Ok(at) };
            // Who asked may have given up.
            let _gone = begun.send(outcome);
        }
        let after = listener.after;
        answer.events.retain(|event| event.kv.as_ref().is_some_and(|kv| kv.mod_revision > after));
        let is_over = answer.canceled || answer.compact_revision > 0;
        // That it is over is news, too.
        let is_news = !answer.events.is_empty() || is_over;
        let is_full = is_news && !listener.sink.take(answer);
        let is_out = is_over || is_full;
        is_out.then(|| all.remove(id)).flatten().map(|(listener, _)| listener)
    }

    /// The member is to be told that a watch is of no more use.
    pub(crate) fn is_unwanted(&self, given: i64) {
        lock(&self.0.unwanted).push(given);
        self.0.more_unwanted.notify_one();
    }
}

pub(crate) fn cancel(watch_id: i64) -> WatchRequest {
    let cancel = WatchCancelRequest { watch_id };
    WatchRequest { request_union: Some(RequestUnion::CancelRequest(cancel)) }
}

/// Where answers go.
pub(crate) enum Sink {
    /// To whoever asks for them.
    Queue(mpsc::Sender<WatchResponse>),
    /// To a call.
    Call(Call),
}

/// It is quick, and is dropped with its watch.
type Call = Box<dyn FnMut(&[Event]) + Send>;

impl Sink {
    /// Whether it took the answer.
    fn take(&mut self, answer: WatchResponse) -> bool {
        match self {
            Self::Queue(queue) => queue.try_send(answer).is_ok(),
            Self::Call(call) => {
                call(&answer.events);
                true
            }
        }
    }
}

/// One key or span that is watched.
pub(crate) struct Listener {
    /// Told when the member has begun to watch, and at which revision.
    pub(crate) begun: Option<oneshot::Sender<Result<i64, String>>>,
    pub(crate) sink: Sink,
    /// What is older than this is no news: members were seen to replay the past.
    pub(crate) after: i64,
    /// The id that a proxy gave to the watch.
    pub(crate) given: Option<i64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_when_the_stream_has_ended_is_told_so() {
        let watched = Watched::new();
        let listener = || {
            let (begun, has_begun) = oneshot::channel();
            let sink = Sink::Call(Box::new(|_| {}));
            (Listener { begun: Some(begun), sink, after: 0, given: None }, has_begun)
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
