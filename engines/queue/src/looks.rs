//! The looks at one ticket: one at a time, and whoever asks meanwhile shares the next one. A store that is slow must not be asked
//! more for being slow.

use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::Result;
use tokio::sync::Mutex;

use crate::own::Sighting;

/// The looks at one ticket.
#[derive(Default)]
pub(crate) struct Looks {
    /// How many have begun.
    begun: AtomicU64,
    last: Mutex<Option<Look>>,
}

/// A look that was answered.
struct Look {
    number: u64,
    seen: Result<Option<Sighting>>,
}

impl Looks {
    /// What is seen by a look that begins after this call.
    pub(crate) async fn share(
        &self,
        look: impl Future<Output = Result<Option<Sighting>>>,
    ) -> Result<Option<Sighting>> {
        let begun = self.begun.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.number > begun) {
            return last.seen.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let seen = look.await;
        *last = Some(Look { number, seen: seen.clone() });
        seen
    }
}
