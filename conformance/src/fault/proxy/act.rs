//! What is done to which message: the rules of a proxy, and how a request is judged by them.

use std::time::Duration;

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
    /// The reply is held until [`Rule::release`](super::Rule::release), and so is all that the server says behind it on
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

/// A rule, and what has become of it.
pub(super) struct RuleState {
    matched: Match,
    act: Act,
    /// Its message has come.
    chosen: bool,
    pub(super) hit: bool,
    pub(super) released: bool,
}

impl RuleState {
    /// A rule whose message has not come.
    pub(super) fn new(matched: Match, act: Act) -> Self {
        Self { matched, act, chosen: false, hit: false, released: false }
    }
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
