//! Requests to all stores at once: the poll of their answers, the requests whose answers come too
//! late to count, and the tickets that have to be removed again.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tenure_core::layers::AnyEngine;
use tenure_core::sync::Mutex;
use tenure_core::toolbox::{JoinState, Releaser, shown};
use tenure_core::{
    BoxFuture, Engine as _, Error, ErrorKind, LeaveMode, LeaveOutcome, Place, Reason, Result,
    Runtime, Ticket, WaitMode,
};

use crate::health::QuorumHealth;

/// Time between two polls of the stragglers. Waking the runtime for each would cost more than the
/// request.
const STRAGGLERS_PAUSE: Duration = Duration::from_millis(5);
/// Maximum polls with stragglers. Further ones are dropped, and their tickets are released.
const STRAGGLERS_MAX: usize = 1024;

/// One store.
pub(crate) struct QuorumNode {
    pub(crate) engine: AnyEngine,
    /// Removes tickets that could not be removed at once.
    pub(crate) releaser: Arc<Releaser>,
}

/// Several stores, with their health.
pub(crate) struct Stores {
    pub(crate) nodes: Vec<Arc<QuorumNode>>,
    pub(crate) health: QuorumHealth,
    stragglers: Arc<Stragglers>,
}

impl Stores {
    pub(crate) fn new(
        engines: impl IntoIterator<Item = AnyEngine>,
        stragglers: &Arc<Stragglers>,
    ) -> Self {
        let node = |engine: AnyEngine| {
            let releaser = Releaser::new(engine.clone(), stragglers.host.clone());
            Arc::new(QuorumNode { engine, releaser })
        };
        let nodes: Vec<_> = engines.into_iter().map(node).collect();
        let health = QuorumHealth::new((1..=nodes.len()).map(|count| format!("store {count}")));
        Self { nodes, health, stragglers: stragglers.clone() }
    }

    /// Number of stores in a majority.
    pub(crate) fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// A ticket that is about to be sent to all stores.
    pub(crate) fn owe(&self, ticket: &Ticket) -> QuorumAttempt {
        self.nodes.iter().map(|node| OwedTicket::new(node, ticket.clone(), None)).collect()
    }

    /// Sends the same request to all stores, until the answers decide.
    pub(crate) async fn ask<T, F>(
        &self,
        decided: impl Fn(&Poll<T>) -> bool,
        request: impl Fn(AnyEngine) -> F,
    ) -> Poll<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.ask_each(decided, self.nodes.iter().map(|node| request(node.engine.clone()))).await
    }

    /// Sends one request to each store, in order. Waits until `decided`, or until every store has
    /// answered or its time is over. The other requests continue in the background.
    pub(crate) async fn ask_each<T, F>(
        &self,
        decided: impl Fn(&Poll<T>) -> bool,
        requests: impl ExactSizeIterator<Item = F>,
    ) -> Poll<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let outcomes = (0..requests.len()).map(|_| None).collect();
        let mut poll = Poll { outcomes, health: self.health.clone() };
        self.stragglers.drive();
        let asked = |(store, request): (usize, F)| -> BoxFuture<(usize, Result<T>)> {
            let (health, limited) = (self.health.clone(), self.stragglers.in_time(request));
            Box::pin(async move {
                let outcome = limited.await;
                health.write(store, outcome.as_ref().err());
                (store, outcome)
            })
        };
        let requests = requests.enumerate().map(asked).collect();
        let mut flight = RequestsInFlight { requests, stragglers: self.stragglers.clone() };
        loop {
            // All requests are sent before an answer counts, and all available answers are read.
            while let Some(Some((store, outcome))) = flight.requests.next().now_or_never() {
                poll.outcomes[store] = Some(outcome);
            }
            if decided(&poll) {
                return poll;
            }
            let Some((store, outcome)) = flight.requests.next().await else { return poll };
            poll.outcomes[store] = Some(outcome);
        }
    }
}

/// The requests of one poll. Those in flight when it is dropped continue with the stragglers.
struct RequestsInFlight<T: Send + 'static> {
    requests: FuturesUnordered<BoxFuture<(usize, Result<T>)>>,
    stragglers: Arc<Stragglers>,
}

impl<T: Send + 'static> Drop for RequestsInFlight<T> {
    fn drop(&mut self) {
        let mut requests = std::mem::take(&mut self.requests);
        if !requests.is_empty() {
            self.stragglers.add(Box::pin(async move { while requests.next().await.is_some() {} }));
        }
    }
}

/// Requests in flight whose answers are no longer needed, driven to their end together.
pub(crate) struct Stragglers {
    pub(crate) host: Arc<dyn Runtime>,
    /// Time limit of a store.
    patience: Duration,
    pending: Mutex<StragglerPolls>,
}

#[derive(Default)]
struct StragglerPolls {
    polls: FuturesUnordered<BoxFuture<()>>,
    is_driven: bool,
}

impl Stragglers {
    pub(crate) fn new(host: Arc<dyn Runtime>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { host, patience, pending: Mutex::default() })
    }

    /// One request to one store, with its time limit. A panic of its engine must not affect other
    /// stores or the renewals.
    pub(crate) fn in_time<T, F: Future<Output = Result<T>>>(
        &self,
        request: F,
    ) -> impl Future<Output = Result<T>> + use<T, F> {
        let (late, patience) = (self.host.sleep(self.patience), self.patience);
        async move {
            match select(pin!(AssertUnwindSafe(request).catch_unwind()), late).await {
                Either::Left((Ok(outcome), _)) => outcome,
                Either::Left((Err(_panic), _)) => Err(Error::unavailable("its engine panicked")),
                Either::Right(_) => {
                    Err(Error::unavailable(format!("no answer within {}", shown(patience))))
                }
            }
        }
    }

    fn add(self: &Arc<Self>, poll: BoxFuture<()>) {
        let mut pending = self.pending();
        if pending.polls.len() >= STRAGGLERS_MAX {
            // Dropping them may release tickets, which must find the list unlocked.
            drop(pending);
            return;
        }
        pending.polls.push(poll);
        if !std::mem::replace(&mut pending.is_driven, true) {
            drop(pending);
            let this = self.clone();
            self.host.spawn(Box::pin(async move { this.drive_to_end().await }));
        }
    }

    /// Polls all of them once, so that they do not pile up under load.
    fn drive(&self) {
        // If the list is locked, another task polls them.
        if let Some(mut pending) = self.pending.try_lock() {
            pending.drive();
        }
    }

    /// Waits until there are none.
    pub(crate) async fn flush(&self) {
        while self.pending().is_driven {
            self.host.sleep(STRAGGLERS_PAUSE).await;
        }
    }

    async fn drive_to_end(&self) {
        loop {
            self.host.sleep(STRAGGLERS_PAUSE).await;
            let mut pending = self.pending();
            pending.drive();
            if pending.polls.is_empty() {
                pending.is_driven = false;
                return;
            }
        }
    }

    fn pending(&self) -> MutexGuard<'_, StragglerPolls> {
        self.pending.lock()
    }
}

impl StragglerPolls {
    fn drive(&mut self) {
        while let Some(Some(())) = self.polls.next().now_or_never() {}
    }
}

/// One outcome for each store; `None`: no answer when enough others had answered.
pub(crate) struct Poll<T> {
    outcomes: Vec<Option<Result<T>>>,
    health: QuorumHealth,
}

impl<T> Poll<T> {
    /// The answers, each with its store.
    pub(crate) fn answers_by_store(&self) -> impl Iterator<Item = (usize, &T)> {
        let outcomes = self.outcomes.iter().enumerate();
        outcomes.filter_map(|(store, outcome)| Some((store, outcome.as_ref()?.as_ref().ok()?)))
    }

    /// The answers.
    pub(crate) fn answers(&self) -> impl Iterator<Item = &T> {
        self.answers_by_store().map(|(_, answer)| answer)
    }

    /// Number of stores without an answer. A store that refuses counts as well.
    pub(crate) fn silent(&self) -> usize {
        self.outcomes.len() - self.answers().count()
    }

    /// The answers, if a majority has answered.
    pub(crate) fn enough_answers(&self, majority: usize) -> Result<Vec<&T>> {
        let answers: Vec<&T> = self.answers().collect();
        if answers.len() < majority { Err(self.too_few("answered", majority)) } else { Ok(answers) }
    }

    /// The error if too few stores did it. If a majority is impossible because of refusals, it is a
    /// refusal.
    pub(crate) fn too_few(&self, did: &str, majority: usize) -> Error {
        let sentence = self.sentence(did, majority);
        let errors = self.outcomes.iter().flatten().filter_map(|outcome| outcome.as_ref().err());
        let refusals: Vec<&Error> = errors.filter(|error| !error.is_retryable()).collect();
        if refusals.len() + majority <= self.outcomes.len() {
            return Error::unavailable(sentence);
        }
        let first = refusals[0];
        let all_have = |reason| refusals.iter().all(|other| other.reason() == Some(reason));
        let reason = first.reason().filter(|reason| all_have(*reason));
        if let Some(Reason::Closed | Reason::IdTaken | Reason::OtherCapacity) = reason {
            // The reason is about the request, not about the stores.
            return first.clone();
        }
        let error = match first.kind() {
            ErrorKind::Invalid => Error::invalid(sentence),
            ErrorKind::Unsupported => Error::unsupported(sentence),
            _ => Error::rejected(sentence),
        };
        match reason {
            Some(reason) => error.with_reason(reason),
            None => error,
        }
    }

    /// The message: how many stores are missing, and the error of each store that failed.
    fn sentence(&self, did: &str, majority: usize) -> String {
        let too_few = format!("fewer than {majority} of {} stores {did}", self.outcomes.len());
        let errors = self.outcomes.iter().enumerate().filter_map(|(store, outcome)| {
            Some(format!("; {}: {}", self.health.of(store).name, outcome.as_ref()?.as_ref().err()?))
        });
        too_few + &errors.collect::<String>()
    }
}

impl Poll<Option<Place>> {
    /// The stores that have the ticket, and did not ask it to leave.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Place> {
        self.answers().flatten().filter(|place| !place.leaving)
    }
}

impl Poll<LeaveOutcome> {
    pub(crate) fn count(&self, wanted: LeaveOutcome) -> usize {
        self.answers().filter(|left| **left == wanted).count()
    }

    /// The outcome of a leave for the whole quorum.
    pub(crate) fn left(&self, majority: usize) -> Result<LeaveOutcome> {
        let (out, asked) = (self.count(LeaveOutcome::Holding), self.count(LeaveOutcome::Requested));
        if out >= majority {
            return Ok(LeaveOutcome::Holding);
        }
        if asked >= majority {
            return Ok(LeaveOutcome::Requested);
        }
        if out + asked + self.silent() >= majority {
            // Some stores may have removed it, so the outcome is unknown.
            return Err(Error::unavailable(self.sentence("let it go", majority)));
        }
        Ok(LeaveOutcome::Absent)
    }
}

/// One ticket in one store, from before it is sent until it is removed.
///
/// Its owner and each request in flight have a clone. When the last clone is dropped and the ticket
/// may still be there, the store's releaser removes it.
pub(crate) struct OwedTicket {
    pub(crate) node: Arc<QuorumNode>,
    pub(crate) ticket: Ticket,
    /// Whether the store may have it; `None`: it does not.
    joined: Mutex<Option<JoinState>>,
}

/// One attempt in every store, in order. Dropping it removes the attempt from all of them.
pub(crate) type QuorumAttempt = Arc<[Arc<OwedTicket>]>;

impl OwedTicket {
    /// A ticket that was not sent yet (`None`), or that was found in the store.
    pub(crate) fn new(
        node: &Arc<QuorumNode>,
        ticket: Ticket,
        joined: Option<JoinState>,
    ) -> Arc<Self> {
        Arc::new(Self { node: node.clone(), ticket, joined: Mutex::new(joined) })
    }

    pub(crate) async fn join(self: Arc<Self>, mode: WaitMode) -> Result<Option<Place>> {
        *self.joined() = Some(JoinState::Joining);
        let answer = self.node.engine.join(&self.ticket, mode).await;
        let mut joined = self.joined();
        match &answer {
            // A ticket that has left stays out: a join does not bring it back.
            _ if joined.is_none() => {}
            Ok(Some(_)) => *joined = Some(JoinState::InLine),
            Err(error) if error.is_retryable() => {}
            Ok(None) | Err(_) => *joined = None,
        }
        drop(joined);
        answer
    }

    pub(crate) async fn leave(self: Arc<Self>) -> Result<LeaveOutcome> {
        // A join in flight may still happen after this.
        let joined = *self.joined();
        let left = self.node.engine.leave(&self.ticket, LeaveMode::Now).await;
        if joined.is_none_or(|joined| joined.is_settled_by(&left)) {
            self.is_out();
        }
        left
    }

    /// The store does not have the ticket.
    pub(crate) fn is_out(&self) {
        *self.joined() = None;
    }

    fn joined(&self) -> MutexGuard<'_, Option<JoinState>> {
        self.joined.lock()
    }
}

impl Drop for OwedTicket {
    fn drop(&mut self) {
        if let Some(joined) = *self.joined() {
            self.node.releaser.release(self.ticket.clone(), joined);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tenure_core::blocking::block_on;
    use tenure_core::{BackgroundRuntime, Memory};

    use super::*;

    /// The outcomes so far, in order.
    fn poll(outcomes: impl IntoIterator<Item = Option<Result<()>>>) -> Poll<()> {
        let outcomes: Vec<_> = outcomes.into_iter().collect();
        let names = (0..outcomes.len()).map(|store| format!("s{store}"));
        Poll { health: QuorumHealth::new(names), outcomes }
    }

    type Refuses = fn(&'static str) -> Error;

    #[test]
    fn where_some_may_do_it_yet_it_is_unknown() {
        let rejected = || Some(Err(Error::rejected("full")));
        let error = poll([rejected(), Some(Ok(())), None]).too_few("let it in", 2);
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.to_string(), "fewer than 2 of 3 stores let it in; s0: full");
        let error = poll([rejected(), rejected(), None, None, None]).too_few("let it in", 3);
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn where_no_majority_can_do_it_any_more_it_is_a_refusal_of_the_first_ones_kind() {
        let closed = || Some(Err(Error::invalid("it is closed").with_reason(Reason::Closed)));
        let error = poll([closed(), closed(), None]).too_few("let it in", 2);
        assert_eq!((error.kind(), error.reason()), (ErrorKind::Invalid, Some(Reason::Closed)));
        assert_eq!(error.to_string(), "it is closed");
        let kinds: [(Refuses, ErrorKind); 3] = [
            (Error::invalid, ErrorKind::Invalid),
            (Error::unsupported, ErrorKind::Unsupported),
            (Error::rejected, ErrorKind::Rejected),
        ];
        for (error, kind) in kinds {
            let differ = [Some(Err(error("one"))), Some(Err(Error::rejected("other"))), None];
            let error = poll(differ).too_few("let it in", 2);
            assert_eq!(error.kind(), kind);
            assert_eq!(error.to_string(), "fewer than 2 of 3 stores let it in; s0: one; s1: other");
        }
    }

    #[test]
    fn each_store_that_failed_is_named_with_its_error() {
        let failed = |message| Some(Err(Error::unavailable(message)));
        let error =
            poll([failed("full"), failed("no answer"), Some(Ok(()))]).too_few("answered", 2);
        let message = "fewer than 2 of 3 stores answered; s0: full; s1: no answer";
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn a_store_that_answers_late_is_shown_as_silent() {
        let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_timers());
        let stragglers = Stragglers::new(host, Duration::from_millis(50));
        let stores = Stores::new([0, 1].map(|_| AnyEngine::new(Memory::new())), &stragglers);
        let (answers, silent) = (ready(Ok(())).left_future(), pending().right_future());
        // The first answer decides, so the second request becomes a straggler.
        let decided = |poll: &Poll<()>| poll.answers().count() == 1;
        block_on(async {
            stores.ask_each(decided, [answers, silent].into_iter()).await;
            stragglers.flush().await;
        });
        let shown = stores.health.to_string();
        assert_eq!(shown, "store 1: answers\nstore 2: no answer within 50ms");
    }
}
