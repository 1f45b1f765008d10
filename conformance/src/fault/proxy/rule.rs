//! A handle to one rule, by which a test waits for its act.

use std::sync::Arc;
use std::time::Duration;

use super::act::{Act, Match, RuleState};
use super::shared::Shared;

/// A rule for one message, made by [`Proxy::on`](super::Proxy::on). It acts once. Dropping the
/// handle does not end it.
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

    /// Waits until the act has been done. Returns `false` if it was not within `patience`.
    ///
    /// By then a connection to be closed is closed; for acts on a reply, the server has answered.
    pub fn wait_until_hit(&self, patience: Duration) -> bool {
        self.shared.wait_until(patience, |state| state.rules[self.number].hit)
    }

    /// Whether the act has been done.
    pub fn is_hit(&self) -> bool {
        self.shared.state().rules[self.number].hit
    }

    /// Releases the reply that [`Act::HoldReply`] holds, or passes it if it comes later.
    pub fn release(&self) {
        self.shared.change(|state| state.rules[self.number].released = true);
    }
}
