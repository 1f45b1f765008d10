//! A client that asks again, as the locks of users do: a busy machine makes a store answer late.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::layers::{AnyEngine, Layer, Retry};
use tenure_core::{Engine as _, Guarantees, Runtime};

/// Pause before the second attempt; each next pause is twice as long.
const PAUSE: Duration = Duration::from_millis(50);
/// The pauses of so many attempts are longer than any patience of a case.
const ATTEMPTS: u32 = 16;

/// An engine that promises to answer within this time.
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

/// Asks again for about this long where an outcome is unknown. What is promised stays the same.
pub(super) fn insistent(
    engine: AnyEngine,
    host: Arc<dyn Runtime>,
    patience: Duration,
) -> AnyEngine {
    let own = engine.guarantees().answers_within;
    // `Retry` goes on for twice as long as one attempt may take.
    let patient = AnswersWithin { engine, within: patience / 2 };
    let retry = Retry::new(patient, host, ATTEMPTS, PAUSE);
    AnyEngine::new(AnswersWithin { engine: AnyEngine::new(retry), within: own })
}
