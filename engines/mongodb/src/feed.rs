//! A feed: the one change stream of a store, shared by its consumers. It is open while one of them
//! listens.
//!
//! The server's work for a change grows with the number of open streams, and each uses a
//! connection. So waiters, queues and onlookers of a store share one stream. Its pipeline passes
//! each change that any of them wants.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use mongodb::bson::RawDocumentBuf;
use tenure_core::sync::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::change_stream;
use crate::command::CommandSender;
use crate::wants::Wants;

/// Time that the stream stays open after its last consumer stopped listening.
const LINGER: Duration = Duration::from_secs(5);
/// Longest time until the server answers if there is no change. The stream uses its connection
/// until then.
const AWAIT: Duration = Duration::from_secs(20);
/// The same over a client of the program: its commands may wait for that connection.
const AWAIT_BORROWED: Duration = Duration::from_secs(1);

/// A consumer of the feed. The feed calls its methods one at a time. They must not block or call
/// the feed.
pub trait Consumer: Send + Sync {
    /// The consumer receives changes from now on. `goes_on`: it has missed none since the last one.
    fn opened(&self, goes_on: bool);

    /// A change, which may be for another consumer.
    fn take(&self, change: &RawDocumentBuf);

    /// The stream does not open. `is_refused`: the server refused it, so the consumer has to poll.
    fn failed(&self, error: &tenure_core::Error, is_refused: bool);

    /// The consumer receives no more changes: it has not listened for five seconds, or the feed has
    /// stopped.
    fn closed(&self);
}

/// Whether a consumer receives changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hears {
    /// No: the stream is closed, or is being opened.
    #[default]
    Closed,
    /// Yes. The number grows each time that changes may have been missed.
    Open(u64),
    /// No: the server has refused the stream.
    Refused,
}

/// The feed of a store.
#[derive(Clone)]
pub struct Feed(Arc<FeedInner>);

pub(crate) struct FeedInner {
    pub(crate) commands: Arc<CommandSender>,
    pub(crate) await_time: Duration,
    state: Mutex<FeedState>,
    /// Notified when a consumer begins or stops to listen.
    changed: Notify,
}

#[derive(Default)]
struct FeedState {
    consumers: Vec<FeedConsumer>,
    task: Option<AbortHandle>,
    /// The error with which the server refuses the stream.
    refusal: Option<tenure_core::Error>,
}

struct FeedConsumer {
    consumer: Arc<dyn Consumer>,
    wants: Wants,
    /// The number of its [`Listening`]s.
    listening: usize,
    /// When a consumer that does not listen is removed.
    until: Option<Instant>,
    hears: bool,
}

/// A consumer that listens. Dropping this ends the listening.
pub struct Listening {
    feed: Arc<FeedInner>,
    consumer: Arc<dyn Consumer>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(entry) = self.feed.state().entry(&self.consumer) {
            entry.listening -= 1;
            if entry.listening == 0 {
                entry.until = Some(Instant::now() + LINGER);
                self.feed.changed.notify_one();
            }
        }
    }
}

impl Feed {
    /// Returns the feed of a collection. `is_own`: the client belongs to the store.
    pub(crate) fn new(commands: Arc<CommandSender>, is_own: bool) -> Self {
        let await_time = if is_own { AWAIT } else { AWAIT_BORROWED };
        let (state, changed) = (Mutex::default(), Notify::new());
        Self(Arc::new(FeedInner { commands, await_time, state, changed }))
    }

    /// Subscribes the consumer. Its `opened` is called once it receives changes.
    pub fn listen(&self, consumer: Arc<dyn Consumer>, wants: impl FnOnce() -> Wants) -> Listening {
        let mut state = self.0.state();
        if let Some(entry) = state.entry(&consumer) {
            (entry.listening, entry.until) = (entry.listening + 1, None);
        } else {
            if let Some(refusal) = &state.refusal {
                consumer.failed(refusal, true);
            }
            let (consumer, wants) = (consumer.clone(), wants());
            let new = FeedConsumer { consumer, wants, listening: 1, until: None, hears: false };
            state.consumers.push(new);
            self.0.changed.notify_one();
        }
        if state.task.is_none() {
            let task = self.0.commands.runtime.spawn(change_stream::run(self.0.clone()));
            state.task = Some(task.abort_handle());
        }
        Listening { feed: self.0.clone(), consumer }
    }

    /// Ends the stream, and notifies its consumers.
    pub(crate) fn stop(&self) {
        let state = self.0.state();
        if let Some(task) = &state.task {
            // The handle is kept, so that no other task begins.
            task.abort();
        }
        for entry in &state.consumers {
            entry.consumer.closed();
        }
    }
}

/// The next act of the stream after a consumer began or stopped to listen.
pub(crate) enum StreamChange {
    /// It goes on.
    Stay,
    /// It opens with another pipeline: a consumer wants changes that the present one leaves out.
    Grow,
    /// It ends, because no consumer is left.
    End,
}

impl FeedInner {
    /// Returns the union of all wants. `None`: there are no consumers, and the task ends.
    pub(crate) fn wants(&self) -> Option<Wants> {
        let mut state = self.state();
        if state.is_idle() {
            return None;
        }
        let mut wants = Wants::default();
        for entry in &state.consumers {
            wants.add(&entry.wants);
        }
        Some(wants)
    }

    /// Notifies the consumers that the stream with these wants is open.
    pub(crate) fn opened(&self, wants: &Wants, goes_on: bool) {
        let mut state = self.state();
        state.refusal = None;
        for entry in &mut state.consumers {
            if wants.covers(&entry.wants) {
                entry.consumer.opened(goes_on && entry.hears);
                entry.hears = true;
            }
        }
    }

    /// Notifies the consumers that the stream does not open.
    pub(crate) fn failed(&self, error: tenure_core::Error, is_refused: bool) {
        let mut state = self.state();
        if is_refused && state.refusal.is_none() {
            tracing::warn!(%error, "the change stream is refused: waiters and queues poll");
        } else {
            tracing::debug!(%error, "the change stream does not open");
        }
        for entry in &state.consumers {
            entry.consumer.failed(&error, is_refused);
        }
        state.refusal = is_refused.then_some(error);
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.state().refusal.is_some()
    }

    /// Passes a change on.
    pub(crate) fn take(&self, change: &RawDocumentBuf) {
        for entry in self.state().consumers.iter().filter(|entry| entry.hears) {
            entry.consumer.take(change);
        }
    }

    /// Waits until a consumer begins or stops to listen, or one is to be removed.
    pub(crate) async fn consumers_changed(&self) {
        let until = self.state().consumers.iter().filter_map(|entry| entry.until).min();
        match until {
            None => self.changed.notified().await,
            Some(until) => {
                let _ = timeout_at(until, self.changed.notified()).await; // look in either case
            }
        }
    }

    /// Removes idle consumers from the stream with these wants, and notifies new ones that it is
    /// open.
    pub(crate) fn reconsider(&self, wants: &Wants) -> StreamChange {
        let mut state = self.state();
        if state.is_idle() {
            return StreamChange::End;
        }
        for entry in state.consumers.iter_mut().filter(|entry| !entry.hears) {
            if !wants.covers(&entry.wants) {
                return StreamChange::Grow;
            }
            entry.consumer.opened(false);
            entry.hears = true;
        }
        StreamChange::Stay
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock()
    }
}

impl FeedState {
    fn entry(&mut self, consumer: &Arc<dyn Consumer>) -> Option<&mut FeedConsumer> {
        self.consumers.iter_mut().find(|entry| Arc::ptr_eq(&entry.consumer, consumer))
    }

    /// Removes idle consumers. Returns whether none is left, and the task ends.
    fn is_idle(&mut self) -> bool {
        let now = Instant::now();
        self.consumers.retain(|entry| {
            let stays = entry.until.is_none_or(|until| until > now);
            if !stays {
                entry.consumer.closed();
            }
            stays
        });
        if self.consumers.is_empty() {
            self.task = None;
        }
        self.consumers.is_empty()
    }
}
