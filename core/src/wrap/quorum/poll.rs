//! One question to every store at once, and how each of them answered.

use std::fmt::Write as _;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;

use super::board::Board;
use crate::{Boxed, Error, Host, Result};

/// The outcomes, one for each store; `None`: it had not answered when enough others had.
pub(super) struct Poll<T> {
    outcomes: Vec<Option<Result<T>>>,
    board: Board,
}

impl<T: Send + 'static> Poll<T> {
    /// Asks until `decided`, or until everyone has answered or had the time to. The verbs are carried out
    /// to their end, even if nobody waits for the answers any more: then the host does it, for as long again.
    pub(super) async fn of<F>(
        verbs: impl ExactSizeIterator<Item = F>,
        board: &Board,
        host: &Arc<dyn Host>,
        patience: Duration,
        decided: impl Fn(&Self) -> bool,
    ) -> Self
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let outcomes = (0..verbs.len()).map(|_| None).collect();
        let mut poll = Self { outcomes, board: board.clone() };
        let mut asked = Asked::new(verbs, board, host, patience);
        let mut late = host.sleep(patience);
        while !asked.verbs.is_empty() {
            match select(asked.verbs.next(), &mut late).await {
                Either::Left((None, _)) => break,
                Either::Left((Some((node, outcome)), _)) => {
                    poll.outcomes[node] = Some(outcome);
                    if decided(&poll) {
                        break;
                    }
                }
                Either::Right(_) => {
                    poll.give_up(patience);
                    break;
                }
            }
        }
        poll
    }

    /// Those who have not answered by now count as silent.
    fn give_up(&mut self, patience: Duration) {
        for (node, outcome) in self.outcomes.iter_mut().enumerate() {
            if outcome.is_none() {
                let error = Error::unavailable(format!("no answer within {patience:?}"));
                self.board.write(node, Some(&error));
                *outcome = Some(Err(error));
            }
        }
    }
}

/// The verbs that are under way, by the store that was asked.
struct Asked<T: Send + 'static> {
    verbs: FuturesUnordered<Boxed<(usize, Result<T>)>>,
    host: Arc<dyn Host>,
    patience: Duration,
}

impl<T: Send + 'static> Asked<T> {
    fn new<F>(
        verbs: impl Iterator<Item = F>,
        board: &Board,
        host: &Arc<dyn Host>,
        patience: Duration,
    ) -> Self
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let told = |(node, verb): (usize, F)| -> Boxed<(usize, Result<T>)> {
            let board = board.clone();
            Box::pin(async move {
                let outcome = verb.await;
                board.write(node, outcome.as_ref().err());
                (node, outcome)
            })
        };
        Self { verbs: verbs.enumerate().map(told).collect(), host: host.clone(), patience }
    }
}

impl<T: Send + 'static> Drop for Asked<T> {
    fn drop(&mut self) {
        let mut rest = std::mem::take(&mut self.verbs);
        if !rest.is_empty() {
            let late = self.host.sleep(self.patience);
            self.host.spawn(Box::pin(async move {
                let answers = pin!(async { while rest.next().await.is_some() {} });
                select(answers, late).await;
            }));
        }
    }
}

impl<T> Poll<T> {
    /// How each store answered, in their order.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = Option<&Result<T>>> {
        self.outcomes.iter().map(Option::as_ref)
    }

    /// What the stores that answered said.
    pub(super) fn answers(&self) -> impl Iterator<Item = &T> {
        self.outcomes().flatten().filter_map(|outcome| outcome.as_ref().ok())
    }

    /// What the stores said that refused.
    pub(super) fn refusals(&self) -> impl Iterator<Item = &Error> {
        self.failures().filter(|error| !error.is_unknown())
    }

    /// How many stores have not said what they did.
    pub(super) fn silent(&self) -> usize {
        let failed = self.failures().filter(|error| error.is_unknown()).count();
        failed + self.outcomes().filter(Option::is_none).count()
    }

    /// The answers, if there are enough of them.
    pub(super) fn enough_answers(&self, majority: usize) -> Result<Vec<&T>> {
        let answers: Vec<&T> = self.answers().collect();
        if answers.len() < majority { Err(self.too_few("answered", majority)) } else { Ok(answers) }
    }

    /// Too few stores did it.
    pub(super) fn too_few(&self, did: &str, majority: usize) -> Error {
        let mut sentence = format!("fewer than {majority} of {} stores {did}", self.outcomes.len());
        for (node, outcome) in self.outcomes().enumerate() {
            if let Some(Err(error)) = outcome {
                let _infallible = write!(sentence, "; {}: {error}", self.board.name(node));
            }
        }
        Error::unavailable(sentence)
    }

    fn failures(&self) -> impl Iterator<Item = &Error> {
        self.outcomes().flatten().filter_map(|outcome| outcome.as_ref().err())
    }
}
