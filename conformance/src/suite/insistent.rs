//! A client with retries, as the locks of users: a store on a busy machine answers late.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::layers::{AnyEngine, Layer, Retries, Retry};
use tenure_core::{Backoff, Engine, Guarantees, Place, Result, Runtime, Ticket, WaitMode};

/// Their pauses exceed the time limit of each case.
const RETRIES: Retries = Retries::times(16);

/// An engine with this `answers_within`.
struct AnswersWithin {
    engine: AnyEngine,
    within: Duration,
}

impl Layer for AnswersWithin {
    type Inner = AnyEngine;

    fn inner(&self) -> &AnyEngine {
        &self.engine
    }

    fn profile(&self) -> Guarantees {
        let mut profile = self.engine.guarantees();
        profile.answers_within = self.within;
        profile
    }
}

/// Repeats joins, which [`Retry`] leaves to the locks.
struct Joins {
    engine: AnyEngine,
    host: Arc<dyn Runtime>,
    patience: Duration,
}

impl Layer for Joins {
    type Inner = AnyEngine;

    fn inner(&self) -> &AnyEngine {
        &self.engine
    }

    async fn join(&self, ticket: &Ticket, mode: WaitMode) -> Result<Option<Place>> {
        let over = self.host.now().plus(self.patience);
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        loop {
            match self.engine.join(ticket, mode).await {
                Err(error) if error.is_retryable() && !self.host.now().has_reached(over) => {
                    self.host.sleep(backoff.next(self.host.random())).await;
                }
                joined => return joined,
            }
        }
    }
}

/// Retries for about `patience` while an outcome is unknown. The guarantees stay the same.
pub(super) fn insistent(
    engine: AnyEngine,
    host: Arc<dyn Runtime>,
    patience: Duration,
) -> AnyEngine {
    let own = engine.guarantees().answers_within;
    // `Retry` continues for twice the time of one attempt.
    let patient = AnswersWithin { engine, within: patience / 2 };
    let retry = AnyEngine::new(Retry::new(patient, host.clone(), RETRIES));
    let joins = Joins { engine: retry, host, patience };
    AnyEngine::new(AnswersWithin { engine: AnyEngine::new(joins), within: own })
}
