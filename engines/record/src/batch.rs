//! Batches: requests of one client for the same line go in one step.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::sync::Mutex;
use tenure_core::{Error, Key, Reason, Result, Runtime};
use tenure_kit::subscriptions::Subscriptions;
use tokio::sync::{Semaphore, oneshot};

use crate::contract::{FoundRecord, RecordStore};
use crate::listener::NoticeListener;
use crate::notice::RecordNotice;
use crate::open_line::{self, LineAnswer, LineRequest, LineVerb, StepResult};

/// Maximum requests in one step.
const BATCH_MAX: usize = 64;
/// Maximum requests of one client that wait for a step on the same line.
const QUEUE_MAX: usize = 1024;

/// Sends the requests of a client, one step at a time for each line.
pub(crate) struct LineBatcher<S>(Arc<LineSteps<S>>);

impl<S> Clone for LineBatcher<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct LineSteps<S> {
    store: Arc<S>,
    runtime: Arc<dyn Runtime>,
    listener: Arc<NoticeListener<S>>,
    /// Whether notices are sent to this client.
    is_pushed: bool,
    name: String,
    answers_within: Duration,
    calls_max: usize,
    /// Permits for operations of the store.
    room: Semaphore,
    /// The requests that wait for a step on a line. A key is present while its task runs.
    queues: Mutex<HashMap<Key, VecDeque<BatchedRequest>>>,
}

struct BatchedRequest {
    request: LineRequest,
    answer: oneshot::Sender<Result<LineAnswer>>,
}

impl<S: RecordStore> LineBatcher<S> {
    pub(crate) fn new(
        store: Arc<S>,
        runtime: Arc<dyn Runtime>,
        listener: Arc<NoticeListener<S>>,
        calls_max: usize,
    ) -> Self {
        let guarantees = store.guarantees();
        Self(Arc::new(LineSteps {
            store,
            runtime,
            listener,
            is_pushed: guarantees.push,
            name: guarantees.store,
            answers_within: guarantees.answers_within,
            calls_max,
            room: Semaphore::new(calls_max),
            queues: Mutex::default(),
        }))
    }

    /// Sends a request in the next step on its line.
    ///
    /// # Errors
    ///
    /// The store did not answer in time, or too many requests wait for this line.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the request is sent, it is not sent.
    pub(crate) async fn send(&self, request: LineRequest) -> Result<LineAnswer> {
        let answered = self.0.enter(request)?;
        let answer =
            self.0.in_time(async { answered.await.unwrap_or_else(|_| Err(self.0.ended())) });
        answer.await
    }

    /// Carries out another operation of the store, when there is room for it.
    ///
    /// # Errors
    ///
    /// Its error, or the store did not answer in time.
    pub(crate) async fn call<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        let with_room = async {
            let room = self.0.room.acquire().await;
            let _room = room.map_err(|_| self.0.closed())?;
            operation.await
        };
        self.0.in_time(with_room).await
    }

    /// Waits for the operations in flight, and refuses all others.
    pub(crate) async fn close(&self) {
        let room = &self.0.room;
        let mut all = Vec::new();
        while all.len() < self.0.calls_max {
            all.push(room.acquire().await);
        }
        room.close();
    }
}

impl<S: RecordStore> LineSteps<S> {
    fn enter(
        self: &Arc<Self>,
        request: LineRequest,
    ) -> Result<oneshot::Receiver<Result<LineAnswer>>> {
        let (answer, answered) = oneshot::channel();
        let key = request.ticket.key.clone();
        if self.queue(&key, BatchedRequest { request, answer })? {
            // Without the lock: a runtime that has ended drops the task at once.
            let task = LineTask { steps: self.clone(), key, has_queue: true };
            self.runtime.spawn(Box::pin(task.run()));
        }
        Ok(answered)
    }

    /// Puts a request into the queue of its line. Returns whether the queue is new and needs a
    /// task.
    fn queue(&self, key: &Key, asked: BatchedRequest) -> Result<bool> {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(key) else {
            queues.insert(key.clone(), [asked].into());
            return Ok(true);
        };
        if queue.len() >= QUEUE_MAX {
            return Err(Error::unavailable(format!(
                "{QUEUE_MAX} requests of this client wait for {} already, for the line of {key:?}",
                self.name
            )));
        }
        queue.push_back(asked);
        Ok(false)
    }

    async fn carry_out(&self, key: &Key, requests: &[LineRequest]) -> Result<Vec<LineAnswer>> {
        let inbox = self.is_pushed.then_some(self.listener.inbox);
        // A lone join: the line may be free, which takes one trip.
        if let [LineRequest { ticket, verb: LineVerb::Join(_) }] = requests
            && let Some(join) = open_line::free_join(ticket, inbox)
            && let Some(number) = self.store.join_free(key, &join).await?
        {
            return Ok(vec![LineAnswer::At(Some(open_line::first_place(ticket, number)))]);
        }
        let step = |found: &FoundRecord| open_line::carry_out(key, found, inbox, requests);
        // Only looks: a read takes no lock.
        if requests.iter().all(|request| request.verb == LineVerb::Look) {
            return step(&self.store.read(key).await?).map(|looks| looks.answers);
        }
        // All others: one step on the record carries out all requests.
        let mut answers = Ok(Vec::new());
        let mut own =
            OwnNotices { subscriptions: &self.listener.subscriptions, notices: Vec::new() };
        let mut decide = |found: &FoundRecord| {
            // The last decision counts, and the notices of one before it were never true.
            own.notices.clear();
            match step(found) {
                Ok(StepResult { answers: new, change }) => {
                    answers = Ok(new);
                    let mut change = change?;
                    // This client needs no push for its own tickets.
                    let is_own = |notice: &RecordNotice| Some(notice.inbox) == inbox;
                    (own.notices, change.notices) = change.notices.into_iter().partition(is_own);
                    Some(change)
                }
                Err(error) => {
                    answers = Err(error);
                    None
                }
            }
        };
        self.store.step(key, &mut decide).await?;
        own.deliver();
        answers
    }

    async fn in_time<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        match select(pin!(answer), self.runtime.sleep(self.answers_within)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(self.late()),
        }
    }

    /// The error of a request whose task has ended.
    fn ended(&self) -> Error {
        if self.room.is_closed() { self.closed() } else { self.late() }
    }

    /// The error of a request that was not sent, because the client is closed. A retry would not
    /// help.
    fn closed(&self) -> Error {
        Error::invalid(format!("the client of {} is closed", self.name)).with_reason(Reason::Closed)
    }

    fn late(&self) -> Error {
        Error::unavailable(format!("no answer from {} within {:?}", self.name, self.answers_within))
    }
}

/// The notices of a step to tickets of this client. If the outcome of the step is not known, their
/// watchers look at the line.
struct OwnNotices<'a> {
    subscriptions: &'a Subscriptions,
    notices: Vec<RecordNotice>,
}

impl OwnNotices<'_> {
    fn deliver(mut self) {
        for RecordNotice { ticket, kind, .. } in self.notices.drain(..) {
            self.subscriptions.deliver(ticket, kind.into());
        }
    }
}

impl Drop for OwnNotices<'_> {
    fn drop(&mut self) {
        for notice in &self.notices {
            self.subscriptions.look(notice.ticket);
        }
    }
}

/// The steps on one line while requests for it wait. If the task ends early, their callers get an
/// error.
struct LineTask<S: RecordStore> {
    steps: Arc<LineSteps<S>>,
    key: Key,
    /// Whether the queue of this key is this task's.
    has_queue: bool,
}

impl<S: RecordStore> LineTask<S> {
    async fn run(mut self) {
        let steps = self.steps.clone();
        loop {
            let Ok(room) = steps.room.acquire().await else { return };
            let (requests, callers): (Vec<_>, Vec<_>) =
                self.next().into_iter().map(|one| (one.request, one.answer)).unzip();
            if requests.is_empty() {
                return;
            }
            let answers = steps.in_time(steps.carry_out(&self.key, &requests)).await;
            drop(room);
            for (at, caller) in callers.into_iter().enumerate() {
                let answer = answers.as_ref().map(|all| all[at].clone()).map_err(Error::clone);
                let _ = caller.send(answer); // the caller may have gone
            }
        }
    }

    /// The next batch. If there is none, the queue is removed, and the next request gets a task of
    /// its own.
    fn next(&mut self) -> Vec<BatchedRequest> {
        let mut queues = self.steps.queues.lock();
        let Some(queue) = queues.get_mut(&self.key) else { return Vec::new() };
        queue.retain(|queued| !queued.answer.is_closed());
        let next: Vec<_> = queue.drain(..queue.len().min(BATCH_MAX)).collect();
        if next.is_empty() {
            queues.remove(&self.key);
            self.has_queue = false;
        }
        next
    }
}

impl<S: RecordStore> Drop for LineTask<S> {
    fn drop(&mut self) {
        if self.has_queue {
            self.steps.queues.lock().remove(&self.key);
        }
    }
}
