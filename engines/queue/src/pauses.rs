//! Backoff between tries of one verb that lost to other clients. The first try follows at once.
//! Later pauses grow and have jitter, so that clients that collided once do not collide again.

use std::time::Duration;

use tenure_core::{Runtime, jitter};

/// Shortest pause.
const SHORTEST: Duration = Duration::from_millis(1);
/// Longest pause, before jitter.
const LONGEST: Duration = Duration::from_millis(32);

/// The backoff of one verb.
pub(crate) struct Pauses<'a> {
    host: &'a dyn Runtime,
    next: Duration,
}

impl<'a> Pauses<'a> {
    pub(crate) fn on(host: &'a dyn Runtime) -> Self {
        Self { host, next: Duration::ZERO }
    }

    /// Waits until the next try.
    pub(crate) async fn rest(&mut self) {
        if self.next.is_zero() {
            self.next = SHORTEST;
            return;
        }
        self.host.sleep(jitter(self.next, self.host.random())).await;
        self.next = (self.next * 2).min(LONGEST);
    }
}
