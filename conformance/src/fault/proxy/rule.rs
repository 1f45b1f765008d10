//! A rule for one message: which it is, what is done to it, and how a test learns that it was done.

use std::sync::Arc;
use std::time::Duration;

use super::road::Road;

/// Which message a rule is for.
#[derive(Clone, Debug)]
pub struct Match {
    part: Vec<u8>,
    nth: u64,
}

impl Match {
    /// The first request whose bytes contain these, on any connection.
    pub fn request_containing(part: impl Into<Vec<u8>>) -> Self {
        Self { part: part.into(), nth: 1 }
    }

    /// The n-th such request after the rule was made, counted from 1, on all connections together.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = nth;
        self
    }
}

/// What is done to a chosen request, or to the reply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The request never reaches the server, nor does anything that the client says behind it, and
    /// its connection is closed. What was said before reaches the server, and may stay unanswered.
    CutBefore,
    /// The request reaches the server and is answered; then the reply is thrown away, and the
    /// connection is closed. What the client says behind the request never reaches the server;
    /// what the server says before the reply reaches the client.
    CutAfter,
    /// The reply is held until [`Rule::release`], and so is all that the server says behind it on
    /// that connection, pushes too.
    HoldReply,
    /// The reply comes so much later, and so does all that the server says behind it on that
    /// connection.
    Delay(Duration),
}

impl Act {
    /// What is done to the reply. `None`: there will be none.
    fn on_reply(self) -> Option<OnReply> {
        match self {
            Self::CutBefore => None,
            Self::CutAfter => Some(OnReply::Cut),
            Self::HoldReply => Some(OnReply::Hold),
            Self::Delay(by) => Some(OnReply::Delay(by)),
        }
    }
}

/// A rule for one message, made by [`Proxy::on`](super::Proxy::on). It holds once. Dropping this
/// does not end it.
#[derive(Clone)]
pub struct Rule {
    road: Arc<Road>,
    number: usize,
}

impl Rule {
    pub(super) fn new(road: &Arc<Road>, matched: Match, act: Act) -> Self {
        let rules = &mut road.state().rules;
        rules.push(RuleState { matched, act, chosen: false, hit: false, released: false });
        let number = rules.len() - 1;
        Self { road: road.clone(), number }
    }

    /// Waits until the act has been done; `false` if it was not within this time.
    ///
    /// A connection is closed then; for acts on a reply, the server has answered.
    pub fn wait_until_hit(&self, patience: Duration) -> bool {
        self.road.wait_until(patience, |state| state.rules[self.number].hit)
    }

    /// Whether the act has been done.
    pub fn is_hit(&self) -> bool {
        self.road.state().rules[self.number].hit
    }

    /// Lets the reply go that [`Act::HoldReply`] holds, or does not hold it at all if it comes later.
    pub fn release(&self) {
        self.road.change(|state| state.rules[self.number].released = true);
    }
}

/// A rule, and what has become of it.
pub(super) struct RuleState {
    matched: Match,
    act: Act,
    /// Its message has come.
    chosen: bool,
    pub(super) hit: bool,
    pub(super) released: bool,
}

/// What a rule wants to be done to a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deed {
    pub(super) rule: usize,
    pub(super) act: OnReply,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum OnReply {
    Cut,
    Hold,
    Delay(Duration),
}

/// What is to be done to a request.
pub(super) enum Verdict {
    Pass(Option<Deed>),
    Cut { rule: usize },
}

/// Asks all rules. Of several that choose the same request, the first acts, and the others choose
/// the next that they match.
pub(super) fn judge(rules: &mut [RuleState], request: &[u8]) -> Verdict {
    let mut verdict = Verdict::Pass(None);
    for (number, rule) in rules.iter_mut().enumerate() {
        if rule.chosen || !contains(request, &rule.matched.part) {
            continue;
        }
        if rule.matched.nth > 1 {
            rule.matched.nth -= 1;
        } else if matches!(verdict, Verdict::Pass(None)) {
            rule.chosen = true;
            verdict = match rule.act.on_reply() {
                Some(act) => Verdict::Pass(Some(Deed { rule: number, act })),
                None => Verdict::Cut { rule: number },
            };
        }
    }
    verdict
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}
