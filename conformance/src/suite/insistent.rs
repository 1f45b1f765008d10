//! A client with retries, as the locks of users: a store on a busy machine answers late.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::layers::{AnyEngine, Layer, Retry};
use tenure_core::{Engine as _, Guarantees, Runtime};

/// Pause before the second attempt; each further pause is twice as long.
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum attempts. Their pauses exceed the time limit of each case.
const ATTEMPTS: u32 = 16;

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

/// Retries for about `patience` while an outcome is unknown. The guarantees stay the same.
pub(super) fn insistent(
    engine: AnyEngine,
    host: Arc<dyn Runtime>,
    patience: Duration,
) -> AnyEngine {
    let own = engine.guarantees().answers_within;
    // `Retry` continues for twice the time of one attempt.
    let patient = AnswersWithin { engine, within: patience / 2 };
    let retry = Retry::new(patient, host, ATTEMPTS, PAUSE);
    AnyEngine::new(AnswersWithin { engine: AnyEngine::new(retry), within: own })
}
