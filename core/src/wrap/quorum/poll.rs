//! One question to every store at once, and how each of them answered.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot;

use super::board::Board;
use crate::{Error, Host, Result};

/// The outcomes, one for each store; `None`: it had not answered when enough others had.
pub(super) struct Poll<T> {
    outcomes: Vec<Option<Result<T>>>,
    board: Board,
}

impl<T: Send + 'static> Poll<T> {
    /// Asks until `decided`, or until everyone has answered. The verbs run on the host and to their
    /// end, even if nobody waits for the answers any more.
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
        let mut asked: FuturesUnordered<_> = verbs
            .enumerate()
            .map(|(node, verb)| {
                let (answer, answered) = oneshot::channel();
                let (clock, board) = (host.clone(), board.clone());
                host.spawn(Box::pin(async move {
                    let outcome = in_time(verb, &*clock, patience).await;
                    board.write(node, outcome.as_ref().err());
                    // Nobody listens once it is decided, or where the question was dropped.
                    let _too_late = answer.send(outcome);
                }));
                async move {
                    let ended =
                        |_| Err(Error::unavailable("the host ended before the store had answered"));
                    (node, answered.await.unwrap_or_else(ended))
                }
            })
            .collect();
        while let Some((node, outcome)) = asked.next().await {
            poll.outcomes[node] = Some(outcome);
            if decided(&poll) {
                break;
            }
        }
        poll
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

async fn in_time<T>(
    verb: impl Future<Output = Result<T>>,
    host: &dyn Host,
    patience: Duration,
) -> Result<T> {
    match select(std::pin::pin!(verb), host.sleep(patience)).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => Err(Error::unavailable(format!("no answer within {patience:?}"))),
    }
}
