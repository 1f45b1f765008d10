//! The rules of a proxy: which request they match, and what happens to it.

use std::time::Duration;

/// The requests that a rule matches.
#[derive(Clone, Debug)]
pub struct Match {
    part: Vec<u8>,
    nth: u64,
}

impl Match {
    /// The first request that contains these bytes, on any connection.
    pub fn request_containing(part: impl Into<Vec<u8>>) -> Self {
        Self { part: part.into(), nth: 1 }
    }

    /// The n-th such request after the rule was made, counted from 1 over all connections.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = nth;
        self
    }
}

/// The treatment of the matched request, or of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The request and everything that the client sends after it never reach the server, and the
    /// connection is closed. Earlier bytes reach the server, and may stay unanswered.
    CutBefore,
    /// The request reaches the server and is answered; then the reply is discarded, and the
    /// connection is closed. Bytes of the client after the request never reach the server; bytes of
    /// the server before the reply reach the client.
    CutAfter,
    /// The reply, and everything that the server sends after it on that connection, pushes too, is
    /// held until [`Rule::release`](super::Rule::release).
    HoldReply,
    /// The reply, and everything that the server sends after it on that connection, is delayed by
    /// this time.
    Delay(Duration),
}

impl Act {
    /// The treatment of the reply. `None`: there will be none.
    fn on_reply(self) -> Option<OnReply> {
        match self {
            Self::CutBefore => None,
            Self::CutAfter => Some(OnReply::Cut),
            Self::HoldReply => Some(OnReply::Hold),
            Self::Delay(by) => Some(OnReply::Delay(by)),
        }
    }
}

/// A rule and its state.
pub(super) struct RuleState {
    matched: Match,
    act: Act,
    /// Its request has arrived.
    chosen: bool,
    pub(super) hit: bool,
    pub(super) released: bool,
}

impl RuleState {
    /// A rule whose request has not arrived.
    pub(super) fn new(matched: Match, act: Act) -> Self {
        Self { matched, act, chosen: false, hit: false, released: false }
    }
}

/// The treatment of a reply, with its rule.
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

/// The treatment of a request.
pub(super) enum Verdict {
    Pass(Option<Deed>),
    Cut { rule: usize },
}

/// Applies all rules. If several match the same request, the first acts, and the others wait for
/// the next request that they match.
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
