//! One request to every store at once, and their answers.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};

use super::board::QuorumHealth;
use super::rest::Stragglers;
use crate::lease::span::shown;
use crate::{BoxFuture, Error, ErrorKind, Reason, Result};

/// One outcome for each store; `None`: no answer when enough others had answered.
pub(super) struct Poll<T> {
    outcomes: Vec<Option<Result<T>>>,
    board: QuorumHealth,
}

impl<T: Send + 'static> Poll<T> {
    /// Waits until `decided`, or until every store has answered or its time is over. Requests
    /// without an answer continue in the background until their time is over.
    pub(super) async fn of<F>(
        verbs: impl ExactSizeIterator<Item = F>,
        board: &QuorumHealth,
        rest: &Arc<Stragglers>,
        decided: impl Fn(&Self) -> bool,
    ) -> Self
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let outcomes = (0..verbs.len()).map(|_| None).collect();
        let mut poll = Self { outcomes, board: board.clone() };
        rest.glance();
        let mut asked = Asked::new(verbs, board, rest);
        loop {
            // All requests are sent before an answer counts, and all available answers are read.
            while let Some(Some(answer)) = asked.verbs.next().now_or_never() {
                poll.hear(answer);
            }
            if asked.verbs.is_empty() || decided(&poll) {
                break;
            }
            if let Either::Left((answer, _)) = select(asked.verbs.next(), &mut asked.late).await {
                if let Some(answer) = answer {
                    poll.hear(answer);
                }
            } else {
                asked.verbs.clear();
                poll.give_up(rest.patience);
                break;
            }
        }
        poll
    }

    fn hear(&mut self, (node, outcome): (usize, Result<T>)) {
        self.outcomes[node] = Some(outcome);
    }

    /// Marks stores without an answer as silent.
    fn give_up(&mut self, patience: Duration) {
        for (node, outcome) in self.outcomes.iter_mut().enumerate() {
            if outcome.is_none() {
                let error = late(patience);
                self.board.write(node, Some(&error));
                *outcome = Some(Err(error));
            }
        }
    }
}

/// The error of a store that did not answer in time.
pub(super) fn late(patience: Duration) -> Error {
    Error::unavailable(format!("no answer within {}", shown(patience)))
}

/// One request to one store. A panic of its engine must not affect other stores or the renewals.
pub(super) async fn contained<T>(verb: impl Future<Output = Result<T>>) -> Result<T> {
    let outcome = AssertUnwindSafe(verb).catch_unwind().await;
    outcome.unwrap_or_else(|_panic| Err(Error::unavailable("its engine panicked")))
}

/// The requests in flight, by store, and their deadline.
struct Asked<T: Send + 'static> {
    verbs: FuturesUnordered<BoxFuture<(usize, Result<T>)>>,
    late: BoxFuture<()>,
    rest: Arc<Stragglers>,
}

impl<T: Send + 'static> Asked<T> {
    fn new<F>(verbs: impl Iterator<Item = F>, board: &QuorumHealth, rest: &Arc<Stragglers>) -> Self
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let told = |(node, verb): (usize, F)| -> BoxFuture<(usize, Result<T>)> {
            let board = board.clone();
            Box::pin(async move {
                let outcome = contained(verb).await;
                board.write(node, outcome.as_ref().err());
                (node, outcome)
            })
        };
        let late = rest.host.sleep(rest.patience);
        Self { verbs: verbs.enumerate().map(told).collect(), late, rest: rest.clone() }
    }
}

impl<T: Send + 'static> Drop for Asked<T> {
    fn drop(&mut self) {
        let mut verbs = std::mem::take(&mut self.verbs);
        if !verbs.is_empty() {
            let late = std::mem::replace(&mut self.late, Box::pin(std::future::pending()));
            self.rest.add(Box::pin(async move {
                let answers = std::pin::pin!(async { while verbs.next().await.is_some() {} });
                select(answers, late).await;
            }));
        }
    }
}

impl<T> Poll<T> {
    /// The outcome of each store, in order.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = Option<&Result<T>>> {
        self.outcomes.iter().map(Option::as_ref)
    }

    /// The answers.
    pub(super) fn answers(&self) -> impl Iterator<Item = &T> {
        self.outcomes().flatten().filter_map(|outcome| outcome.as_ref().ok())
    }

    /// Number of stores without an answer. A store that refuses counts as well.
    pub(super) fn silent(&self) -> usize {
        self.outcomes.len() - self.answers().count()
    }

    /// The answers, if a majority has answered.
    pub(super) fn enough_answers(&self, majority: usize) -> Result<Vec<&T>> {
        let answers: Vec<&T> = self.answers().collect();
        if answers.len() < majority { Err(self.too_few("answered", majority)) } else { Ok(answers) }
    }

    /// The error if too few stores did it. If a majority is impossible because of refusals, it is a
    /// refusal.
    pub(super) fn too_few(&self, did: &str, majority: usize) -> Error {
        let sentence = self.sentence(did, majority);
        let errors = self.outcomes().flatten().filter_map(|outcome| outcome.as_ref().err());
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

    /// The error if too few stores did it, and the outcome is unknown.
    pub(super) fn unknown(&self, did: &str, majority: usize) -> Error {
        Error::unavailable(self.sentence(did, majority))
    }

    /// The message: how many stores are missing, and the error of each store that failed.
    fn sentence(&self, did: &str, majority: usize) -> String {
        let too_few = format!("fewer than {majority} of {} stores {did}", self.outcomes.len());
        let errors = self.outcomes().enumerate().filter_map(|(node, outcome)| {
            Some(format!("; {}: {}", self.board.name(node), outcome?.as_ref().err()?))
        });
        too_few + &errors.collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcomes so far, in order.
    fn poll(outcomes: impl IntoIterator<Item = Option<Result<()>>>) -> Poll<()> {
        let outcomes: Vec<_> = outcomes.into_iter().collect();
        let names = (0..outcomes.len()).map(|store| format!("s{store}"));
        Poll { board: QuorumHealth::new(names), outcomes }
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
    fn who_had_its_time_is_silent_and_the_board_says_so() {
        let mut poll = poll([Some(Ok(())), None]);
        poll.give_up(Duration::from_millis(50));
        assert_eq!((poll.silent(), poll.answers().count()), (1, 1));
        let shown = poll.board.to_string();
        assert_eq!(shown, "s0: not asked yet\ns1: no answer within 50ms");
    }
}
