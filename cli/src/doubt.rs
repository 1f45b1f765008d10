//! Why renewals fail: a holder whose store refuses them, or does not answer, tells the reason when it stops its command.

use std::pin::Pin;

use tenure::{Error, Guard, Held, Result};

use crate::signals::Signals;

/// What the store said of the last renewal that failed.
pub(crate) struct Doubt {
    held: Held,
    /// Waits for a renewal that fails, and then renews once more to hear why.
    asking: Pin<Box<dyn Future<Output = Result<()>>>>,
    reason: Option<Error>,
}

impl Doubt {
    pub(crate) fn of(guard: &Guard) -> Self {
        let held = guard.held();
        Self { asking: asking(held.clone()), held, reason: None }
    }

    /// Hears what came of it. The next renewal is asked for when this is called again.
    pub(crate) fn look(&mut self, signals: &Signals) {
        let Some(outcome) = signals.look(self.asking.as_mut()) else { return };
        self.asking = asking(self.held.clone());
        match outcome {
            Ok(()) => self.reason = None,
            // That it is lost is said as such.
            Err(error) if error.loss().is_some() => {}
            Err(error) => self.reason = Some(error),
        }
    }

    /// Why the last renewal failed, as a sentence ends.
    pub(crate) fn told(&self) -> Option<String> {
        let reason = self.reason.as_ref()?;
        Some(format!(" (the last renewal failed: {reason})"))
    }
}

fn asking(held: Held) -> Pin<Box<dyn Future<Output = Result<()>>>> {
    Box::pin(async move {
        held.warned().await;
        held.extend().await
    })
}
