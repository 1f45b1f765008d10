//! Pauses between tries of one verb, of which others were quicker: the first is none, the others grow and are uneven, so that
//! clients who were at odds once do not meet again.

use std::time::Duration;

use tenure_core::{Runtime, jitter};

/// The shortest that is one.
const SHORTEST: Duration = Duration::from_millis(1);
/// They grow no further.
const LONGEST: Duration = Duration::from_millis(32);

/// The pauses of one verb.
pub(crate) struct Pauses<'a> {
    host: &'a dyn Runtime,
    next: Duration,
}

impl<'a> Pauses<'a> {
    pub(crate) fn on(host: &'a dyn Runtime) -> Self {
        Self { host, next: Duration::ZERO }
    }

    /// Waits until the next try may be made.
    pub(crate) async fn rest(&mut self) {
        if self.next.is_zero() {
            self.next = SHORTEST;
            return;
        }
        self.host.sleep(jitter(self.next, self.host.random())).await;
        self.next = (self.next * 2).min(LONGEST);
    }
}
