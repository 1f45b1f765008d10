//! Renewals of tickets that are alone in their lines: those that come while a statement is in
//! flight go together in the next one, with one commit.

use std::pin::Pin;
use std::sync::Arc;

use tenure_core::sync::Mutex;
use tenure_core::{Error, Key, Result};
use tokio::sync::oneshot;

use crate::contract::LoneStep;

/// Maximum renewals in one statement.
pub const RENEWALS_MAX: usize = 64;

/// The renewal of a ticket that is alone in its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoneRenewal {
    /// The key of the line.
    pub key: Key,
    /// The tickets of a record with this ticket alone: see [`LoneStep::tickets`].
    pub tickets: Vec<u8>,
    /// The ttl of the ticket, in microseconds.
    pub ttl_us: u64,
}

/// A client of a store that carries out several renewals at once.
pub trait RenewalStore: Send + Sync + 'static {
    /// The result of one renewal.
    type Renewed: Send + 'static;

    /// Renews tickets, with one commit. Returns a result for each, in order, or none if another
    /// transaction was in the way of all.
    fn renew(
        &self,
        renewals: &[LoneRenewal],
    ) -> impl Future<Output = Result<Vec<Self::Renewed>>> + Send;

    /// Runs a task on the runtime of the store's connection.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// The error of a renewal whose outcome is unknown.
    fn no_answer(&self) -> Error;
}

/// The renewals of a client.
pub struct RenewalBatcher<S: RenewalStore>(Arc<QueuedRenewals<S>>);

struct QueuedRenewals<S: RenewalStore> {
    store: S,
    /// The renewals that wait. `None` while no task sends them.
    waiting: Mutex<Option<Vec<WaitingRenewal<S::Renewed>>>>,
}

struct WaitingRenewal<T> {
    renewal: LoneRenewal,
    answer: oneshot::Sender<Result<Option<T>>>,
}

impl<S: RenewalStore> RenewalBatcher<S> {
    /// Returns a batcher without renewals.
    pub fn new(store: S) -> Self {
        Self(Arc::new(QueuedRenewals { store, waiting: Mutex::default() }))
    }

    /// Renews a ticket. `None`: another transaction was in the way of the statement.
    ///
    /// # Errors
    ///
    /// The statement failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the renewal may be sent.
    pub async fn renew(&self, key: &Key, step: &LoneStep) -> Result<Option<S::Renewed>> {
        let (answer, answered) = oneshot::channel();
        let renewal =
            LoneRenewal { key: key.clone(), tickets: step.tickets.clone(), ttl_us: step.ttl_us };
        let is_first = {
            let mut waiting = self.0.waiting.lock();
            let is_first = waiting.is_none();
            waiting.get_or_insert_default().push(WaitingRenewal { renewal, answer });
            is_first
        };
        if is_first {
            // Without the lock: a runtime that has ended drops the task at once.
            let task = RenewalTask { queue: self.0.clone(), has_queue: true };
            self.0.store.spawn(Box::pin(task.run()));
        }
        answered.await.unwrap_or_else(|_| Err(self.0.store.no_answer()))
    }
}

/// The task that sends the renewals. If it ends early, their callers get an error.
struct RenewalTask<S: RenewalStore> {
    queue: Arc<QueuedRenewals<S>>,
    has_queue: bool,
}

impl<S: RenewalStore> RenewalTask<S> {
    async fn run(mut self) {
        loop {
            let (renewals, answers) = self.next();
            if renewals.is_empty() {
                return;
            }
            let (mut renewed, error) = match self.queue.store.renew(&renewals).await {
                Ok(renewed) => (renewed.into_iter(), None),
                Err(error) => (Vec::new().into_iter(), Some(error)),
            };
            for answer in answers {
                let result = error.clone().map_or_else(|| Ok(renewed.next()), Err);
                let _ = answer.send(result); // the caller may have gone
            }
        }
    }

    /// The next renewals. If there are none, the queue is closed, and the next renewal gets a task
    /// of its own.
    fn next(&mut self) -> NextRenewals<S::Renewed> {
        let mut waiting = self.queue.waiting.lock();
        let Some(all) = waiting.as_mut() else { return NextRenewals::default() };
        all.retain(|waiting| !waiting.answer.is_closed());
        let next = all.drain(..all.len().min(RENEWALS_MAX));
        let next: NextRenewals<_> = next.map(|it| (it.renewal, it.answer)).unzip();
        if next.0.is_empty() {
            *waiting = None;
            self.has_queue = false;
        }
        next
    }
}

/// Renewals, and the callers that wait for them.
type NextRenewals<T> = (Vec<LoneRenewal>, Vec<oneshot::Sender<Result<Option<T>>>>);

impl<S: RenewalStore> Drop for RenewalTask<S> {
    fn drop(&mut self) {
        if self.has_queue {
            // Outside the lock, because the drop of an answer wakes its caller.
            let rest = self.queue.waiting.lock().take();
            drop(rest);
        }
    }
}
