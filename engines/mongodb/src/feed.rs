//! A feed: the one change stream of a store, shared by its consumers. It is open while one of them
//! listens.
//!
//! The server's work for a change grows with the number of open streams, and each uses a
//! connection. So waiters, queues and onlookers of a store share one stream. Its pipeline passes
//! each change that any of them wants.

use std::pin::pin;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::future::{Either, pending, select};
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria};
use tenure_core::sync::Mutex;
use tenure_core::{Backoff, jitter};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::command::CommandSender;
use crate::trouble;

/// Time that the stream stays open after its last consumer stopped listening.
pub(crate) const LINGER: Duration = Duration::from_secs(5);
/// Longest time until the server answers if there is no change. The stream uses its connection
/// until then.
const AWAIT: Duration = Duration::from_secs(20);
/// The same over a client of the program: its commands may wait for that connection.
const AWAIT_BORROWED: Duration = Duration::from_secs(1);
/// Minimum time that an answer of the stream may be late, also with a shorter `timeout`.
const SLACK_MIN: Duration = Duration::from_secs(5);
/// First backoff after a failure. It doubles with each further failure, up to `PAUSE_MAX`.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Pause after the server has refused the stream. Consumers poll meanwhile.
const PAUSE_REFUSED: Duration = Duration::from_secs(30);
/// Error codes of a stream that cannot be resumed, so changes were missed:
/// `ChangeStreamFatalError`, `ChangeStreamHistoryLost`, `InvalidResumeToken`, `CappedPositionLost`.
const LOST: [i32; 4] = [280, 286, 260, 136];
/// Kinds of changes after which a stream ends or stays silent. The server ends it also if no
/// consumer wants these.
const ENDS: [&str; 4] = ["drop", "rename", "dropDatabase", "invalidate"];

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

/// The part of the stream's pipeline that is for one consumer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wants {
    /// Fields that are computed of each change, for the cases.
    pub computed: Document,
    /// A change is wanted if it is one of these cases. Fewer and plainer cases cost the server less
    /// for all other changes.
    pub cases: Vec<Document>,
    /// Fields that are sent of a change, besides its kind and the key of the document.
    pub sent: Document,
}

impl Wants {
    fn add(&mut self, other: &Self) {
        let new = other.cases.iter().filter(|case| !self.cases.contains(case));
        let new: Vec<_> = new.cloned().collect();
        self.cases.extend(new);
        let pairs = |document: &Document| document.clone().into_iter();
        self.computed.extend(pairs(&other.computed));
        self.sent.extend(pairs(&other.sent));
    }

    fn covers(&self, other: &Self) -> bool {
        let has = |all: &Document, some: &Document| some.keys().all(|name| all.contains_key(name));
        other.cases.iter().all(|case| self.cases.contains(case))
            && has(&self.computed, &other.computed)
            && has(&self.sent, &other.sent)
    }

    fn pipeline(&self) -> Vec<Document> {
        let mut stages = Vec::new();
        if !self.computed.is_empty() {
            stages.push(doc! { "$set": self.computed.clone() });
        }
        stages.push(doc! { "$match": { "$or": self.cases.clone() } });
        let mut sent = doc! { "operationType": 1, "documentKey": 1 };
        sent.extend(self.sent.clone());
        stages.push(doc! { "$project": sent });
        stages
    }
}

/// The feed of a store.
#[derive(Clone)]
pub struct Feed(Arc<FeedInner>);

struct FeedInner {
    commands: Arc<CommandSender>,
    await_time: Duration,
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
        let mut state = self.feed.state();
        let mut entries = state.consumers.iter_mut();
        if let Some(entry) = entries.find(|entry| Arc::ptr_eq(&entry.consumer, &self.consumer)) {
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
        Self(Arc::new(FeedInner {
            commands,
            await_time,
            state: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// Subscribes the consumer. Its `opened` is called once it receives changes.
    pub fn listen(&self, consumer: Arc<dyn Consumer>, wants: impl FnOnce() -> Wants) -> Listening {
        let mut state = self.0.state();
        let mut entries = state.consumers.iter_mut();
        if let Some(entry) = entries.find(|entry| Arc::ptr_eq(&entry.consumer, &consumer)) {
            (entry.listening, entry.until) = (entry.listening + 1, None);
        } else {
            if let Some(refusal) = &state.refusal {
                consumer.failed(refusal, true);
            }
            let (consumer, wants) = (consumer.clone(), wants());
            state.consumers.push(FeedConsumer {
                consumer,
                wants,
                listening: 1,
                until: None,
                hears: false,
            });
            self.0.changed.notify_one();
        }
        if state.task.is_none() {
            let task = self.0.commands.runtime.spawn(run(self.0.clone()));
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

/// Why reading the stream ended.
enum Ended {
    /// A consumer wants changes that the pipeline leaves out.
    Grown,
    /// No consumer is left.
    Idle,
    /// The server or the connection ended the stream. `was_heard`: the server had answered before.
    Broken { was_heard: bool },
}

/// Reads the stream while it has consumers.
async fn run(feed: Arc<FeedInner>) {
    let (mut token, mut backoff) = (None, Backoff::new(PAUSE_FIRST, PAUSE_MAX));
    while let Some(wants) = feed.wants() {
        // The driver sets no deadline of its own, and a connection may go silent without an end.
        let opened = timeout(feed.slack(), feed.open(&wants, token.clone())).await;
        let Ok(opened) = opened else {
            feed.failed(trouble::late(&feed.commands.servers), false);
            feed.rest(&mut backoff).await;
            continue;
        };
        match opened {
            Ok(mut stream) => {
                feed.opened(&wants, token.is_some());
                token = stream.resume_token();
                match feed.hear(&mut stream, &wants, &mut token).await {
                    Ended::Idle => return,
                    Ended::Grown => continue,
                    Ended::Broken { was_heard: true } => {
                        backoff.reset();
                    }
                    Ended::Broken { was_heard: false } => {}
                }
            }
            Err(error) => {
                let told = trouble::error(&feed.commands.servers, &error);
                // A resume token that the server refuses must not keep the stream closed.
                let is_token = token.is_some();
                token = token.filter(|_| told.is_retryable() && !is_lost(&error));
                let is_refused = !is_token
                    && matches!(
                        told.kind(),
                        tenure_core::ErrorKind::Rejected | tenure_core::ErrorKind::Invalid
                    );
                feed.failed(told, is_refused);
            }
        }
        feed.rest(&mut backoff).await;
    }
}

impl FeedInner {
    /// Returns the union of all wants. `None`: there are no consumers, and the task ends.
    fn wants(&self) -> Option<Wants> {
        let mut state = self.state();
        state.remove_idle();
        if state.consumers.is_empty() {
            state.task = None;
            return None;
        }
        let mut wants = Wants::default();
        for entry in &state.consumers {
            wants.add(&entry.wants);
        }
        Some(wants)
    }

    /// Returns how late an answer of the stream may be. A slow server must not look like a dead
    /// connection.
    fn slack(&self) -> Duration {
        self.commands.timeout.max(SLACK_MIN)
    }

    /// Sleeps before the next attempt.
    async fn rest(&self, backoff: &mut Backoff) {
        let pause = backoff.pause();
        let is_refused = self.state().refusal.is_some();
        let refused = || jitter(PAUSE_REFUSED, getrandom::u64().unwrap_or(0));
        sleep(if is_refused { refused() } else { pause }).await;
    }

    async fn open(
        &self,
        wants: &Wants,
        token: Option<ResumeToken>,
    ) -> Result<ChangeStream<RawDocumentBuf>, Error> {
        let records = self.commands.database.collection::<Document>(&self.commands.collection);
        let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
        let watch = records.watch().pipeline(wants.pipeline()).max_await_time(self.await_time);
        // A change stream does not take every read concern that a client may have.
        let watch = watch.selection_criteria(primary).read_concern(ReadConcern::majority());
        let stream = match token {
            Some(token) => watch.resume_after(token).await?,
            None => watch.await?,
        };
        Ok(stream.with_type())
    }

    fn opened(&self, wants: &Wants, goes_on: bool) {
        let mut state = self.state();
        state.refusal = None;
        for entry in &mut state.consumers {
            if wants.covers(&entry.wants) {
                entry.consumer.opened(goes_on && entry.hears);
                entry.hears = true;
            }
        }
    }

    fn failed(&self, error: tenure_core::Error, is_refused: bool) {
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

    /// Passes changes to the consumers until the stream ends. The token says where it can be
    /// resumed.
    async fn hear(
        &self,
        stream: &mut ChangeStream<RawDocumentBuf>,
        wants: &Wants,
        token: &mut Option<ResumeToken>,
    ) -> Ended {
        let mut was_heard = false;
        while stream.is_alive() {
            let next = {
                // A dropped request may lose its answer, so it goes on while consumers come and go.
                let until = Instant::now() + self.await_time + self.slack();
                let mut next = pin!(stream.next_if_any());
                loop {
                    let changed = timeout_at(until, self.consumers_changed());
                    match select(next.as_mut(), pin!(changed)).await {
                        Either::Left((next, _)) => break next,
                        Either::Right((Ok(()), _)) => {
                            if let Some(ended) = self.reconsider(wants) {
                                return ended;
                            }
                        }
                        // The server answers within the time that it may wait, so the connection is
                        // dead.
                        Either::Right((Err(_), _)) => {
                            tracing::debug!("the change stream is silent: it is opened again");
                            return Ended::Broken { was_heard };
                        }
                    }
                }
            };
            match next {
                Ok(change) => {
                    was_heard = true;
                    *token = stream.resume_token();
                    let Some(change) = change else { continue };
                    let kind = change.get_str("operationType").unwrap_or_default();
                    if ENDS.contains(&kind) {
                        *token = None;
                        return Ended::Broken { was_heard };
                    }
                    for entry in self.state().consumers.iter().filter(|entry| entry.hears) {
                        entry.consumer.take(&change);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "the change stream has ended");
                    if is_lost(&error) {
                        *token = None;
                    }
                    return Ended::Broken { was_heard };
                }
            }
        }
        // The collection is gone, so the stream cannot be resumed.
        *token = None;
        Ended::Broken { was_heard }
    }

    /// Waits until a consumer begins or stops to listen, or one is to be removed.
    async fn consumers_changed(&self) {
        let until = self.state().consumers.iter().filter_map(|entry| entry.until).min();
        let removal = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => pending().await,
            }
        };
        select(pin!(self.changed.notified()), pin!(removal)).await;
    }

    /// Returns why the stream has to end, if its consumers have changed in that way.
    fn reconsider(&self, wants: &Wants) -> Option<Ended> {
        let mut state = self.state();
        state.remove_idle();
        if state.consumers.is_empty() {
            state.task = None;
            return Some(Ended::Idle);
        }
        for entry in state.consumers.iter_mut().filter(|entry| !entry.hears) {
            if !wants.covers(&entry.wants) {
                return Some(Ended::Grown);
            }
            entry.consumer.opened(false);
            entry.hears = true;
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock()
    }
}

impl FeedState {
    fn remove_idle(&mut self) {
        let now = Instant::now();
        self.consumers.retain(|entry| {
            let stays = entry.until.is_none_or(|until| until > now);
            if !stays {
                entry.consumer.closed();
            }
            stays
        });
    }
}

/// Returns whether the stream cannot be resumed where it ended.
fn is_lost(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::Command(command) => {
            LOST.contains(&command.code) || error.contains_label("NonResumableChangeStreamError")
        }
        ErrorKind::MissingResumeToken => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_covers_each_of_its_consumers_and_no_other() {
        let case = |n: i32| doc! { "n": n };
        let wants = |n: i32| Wants { cases: vec![case(n)], ..Wants::default() };
        let computes = Wants { computed: doc! { "x": 1 }, sent: doc! { "x": 1 }, ..wants(1) };
        let mut all = Wants::default();
        for one in [wants(1), wants(2), computes.clone(), wants(2)] {
            all.add(&one);
        }
        assert_eq!(all.cases, [case(1), case(2)]);
        for one in [wants(1), wants(2), computes] {
            assert!(all.covers(&one));
        }
        assert!(!all.covers(&wants(3)));
        assert!(!all.covers(&Wants { computed: doc! { "y": 1 }, ..Wants::default() }));
    }
}
