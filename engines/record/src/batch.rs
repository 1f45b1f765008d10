//! Batches: requests of one client for the same line go in one step.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::sync::Mutex;
use tenure_core::{Error, Key, Reason, Result, Runtime, Time};
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
    room: Arc<Semaphore>,
    /// Permits for the half of them that need not be steps on lines. Additions to a counter whose
    /// row is locked would otherwise keep out all renewals.
    room_for_others: Arc<Semaphore>,
    /// The requests that wait for a step on a line. A key is present while its task runs.
    queues: Mutex<HashMap<Key, VecDeque<BatchedRequest>>>,
}

struct BatchedRequest {
    request: LineRequest,
    /// When its caller no longer waits.
    until: Time,
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
            room: Arc::new(Semaphore::new(calls_max)),
            room_for_others: Arc::new(Semaphore::new((calls_max / 2).max(1))),
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
        let until = self.0.late_at();
        let answered = self.0.enter(request, until)?;
        self.0.answer(until, answered).await
    }

    /// Carries out another operation of the store, when there is room for it.
    ///
    /// # Errors
    ///
    /// Its error, or the store did not answer in time.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before there is room, the operation does not begin. An operation
    /// that has begun runs on without its caller and keeps its room: the store may carry it out.
    pub(crate) async fn call<T, F>(&self, operation: impl FnOnce(Arc<S>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (steps, until) = (self.0.clone(), self.0.late_at());
        let room = async {
            let other = steps.room_for_others.clone().acquire_owned().await;
            let room = steps.room.clone().acquire_owned().await;
            Ok((other.map_err(|_| steps.closed())?, room.map_err(|_| steps.closed())?))
        };
        let room = steps.in_time(until, room).await?;
        let operation = operation(steps.store.clone());
        let (answer, answered) = oneshot::channel();
        steps.runtime.clone().spawn(Box::pin(async move {
            let result = steps.in_time(until, operation).await;
            drop(room);
            let _ = answer.send(result); // the caller may have gone
        }));
        self.0.answer(until, answered).await
    }

    /// Waits for the operations in flight, and refuses all others.
    pub(crate) async fn close(&self) {
        let room = &self.0.room;
        // Of two tasks that close, each would wait for permits that the other has, if they took
        // them one by one. Another task may have closed it.
        let _all = room.acquire_many(u32::try_from(self.0.calls_max).unwrap_or(u32::MAX)).await;
        room.close();
    }
}

impl<S: RecordStore> LineSteps<S> {
    fn enter(
        self: &Arc<Self>,
        request: LineRequest,
        until: Time,
    ) -> Result<oneshot::Receiver<Result<LineAnswer>>> {
        let (answer, answered) = oneshot::channel();
        let key = request.ticket.key.clone();
        if self.queue(&key, BatchedRequest { request, until, answer })? {
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
        let step = |found: &FoundRecord| open_line::carry_out(key, found, inbox, requests);
        // Only looks: a read takes no lock.
        if requests.iter().all(|request| request.verb == LineVerb::Look) {
            return step(&self.store.read(key).await?).map(|looks| looks.answers);
        }
        // A lone request: if its ticket is alone in the line, the store needs one trip for it.
        let lone = match requests {
            [request] => open_line::lone_step(request, inbox),
            _ => None,
        };
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
        let number = self.store.step(key, lone.as_ref(), &mut decide).await?;
        own.deliver();
        match (number, requests) {
            (Some(number), [request]) => Ok(vec![open_line::lone_answer(request, number)]),
            _ => answers,
        }
    }

    /// When a request of now is late.
    fn late_at(&self) -> Time {
        self.runtime.now().plus(self.answers_within)
    }

    /// Waits for the answer of a task.
    async fn answer<T>(&self, until: Time, answered: oneshot::Receiver<Result<T>>) -> Result<T> {
        let answer = async { answered.await.unwrap_or_else(|_| Err(self.ended())) };
        self.in_time(until, answer).await
    }

    async fn in_time<T>(&self, until: Time, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let late = self.runtime.sleep(self.runtime.now().until(until));
        match select(pin!(answer), late).await {
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
            let next = self.next();
            // The step ends when its newest request is late, and all others are.
            let Some(until) = next.last().map(|newest| newest.until) else { return };
            let (requests, callers): (Vec<_>, Vec<_>) =
                next.into_iter().map(|one| (one.request, one.answer)).unzip();
            let answers = steps.in_time(until, steps.carry_out(&self.key, &requests)).await;
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
