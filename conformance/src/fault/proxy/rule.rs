//! A handle on one rule, by which a test learns that its act was done.

use std::sync::Arc;
use std::time::Duration;

use super::act::{Act, Match, RuleState};
use super::shared::Shared;

/// A rule for one message, made by [`Proxy::on`](super::Proxy::on). It holds once. Dropping this
/// does not end it.
#[derive(Clone)]
pub struct Rule {
    shared: Arc<Shared>,
    number: usize,
}

impl Rule {
    pub(super) fn new(shared: &Arc<Shared>, matched: Match, act: Act) -> Self {
        let rules = &mut shared.state().rules;
        rules.push(RuleState::new(matched, act));
        let number = rules.len() - 1;
        Self { shared: shared.clone(), number }
    }

    /// Waits until the act has been done; `false` if it was not within this time.
    ///
    /// A connection is closed then; for acts on a reply, the server has answered.
    pub fn wait_until_hit(&self, patience: Duration) -> bool {
        self.shared.wait_until(patience, |state| state.rules[self.number].hit)
    }

    /// Whether the act has been done.
    pub fn is_hit(&self) -> bool {
        self.shared.state().rules[self.number].hit
    }

    /// Lets the reply go that [`Act::HoldReply`] holds, or does not hold it at all if it comes later.
    pub fn release(&self) {
        self.shared.change(|state| state.rules[self.number].released = true);
    }
}
