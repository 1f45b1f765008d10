//! A poll: the answers of all stores to one request, and what they decide.

use tenure_core::{Error, ErrorKind, LeaveOutcome, Place, Reason, Result};

use crate::health::QuorumHealth;

/// One outcome for each store; `None`: no answer when enough others had answered.
pub(crate) struct Poll<T> {
    pub(crate) outcomes: Vec<Option<Result<T>>>,
    pub(crate) health: QuorumHealth,
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

#[cfg(test)]
mod tests {
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
}
