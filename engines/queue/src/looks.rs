//! Reads of one ticket, coalesced: one at a time, and callers that come meanwhile share the next
//! one. So a slow store gets no more requests for being slow.

use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::Result;
use tokio::sync::Mutex;

/// The reads of one ticket, which return a `T`.
pub(crate) struct Looks<T> {
    /// Count of reads that have begun.
    begun: AtomicU64,
    last: Mutex<Option<Look<T>>>,
}

/// A read that was answered.
struct Look<T> {
    number: u64,
    seen: Result<Option<T>>,
}

impl<T> Default for Looks<T> {
    fn default() -> Self {
        Self { begun: AtomicU64::default(), last: Mutex::default() }
    }
}

impl<T: Clone> Looks<T> {
    /// Returns the result of a read that begins after this call.
    pub(crate) async fn share(
        &self,
        look: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<T>> {
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
