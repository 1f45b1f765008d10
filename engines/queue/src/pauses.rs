//! Backoff between tries of one verb that lost to other clients. The first try follows at once.
//! Later pauses grow and have jitter, so that clients that collided once do not collide again.

use std::time::Duration;

use tenure_core::{Backoff, Runtime};

/// Shortest pause.
const SHORTEST: Duration = Duration::from_millis(1);
/// Longest pause, before jitter.
const LONGEST: Duration = Duration::from_millis(32);

/// The backoff of one verb.
pub(crate) struct Pauses<'a> {
    host: &'a dyn Runtime,
    /// `None` before the first try.
    backoff: Option<Backoff>,
}

impl<'a> Pauses<'a> {
    pub(crate) fn on(host: &'a dyn Runtime) -> Self {
        Self { host, backoff: None }
    }

    /// Waits until the next try.
    pub(crate) async fn rest(&mut self) {
        match &mut self.backoff {
            None => self.backoff = Some(Backoff::new(SHORTEST, LONGEST)),
            Some(backoff) => self.host.sleep(backoff.next(self.host.random())).await,
        }
    }
}
