//! Listings of lines, coalesced: concurrent callers for the same line share one listing, which
//! begins after all of them asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use tenure_queue::LineId;
use tokio::sync::Mutex as AsyncMutex;

use tenure_core::sync::Mutex;

use crate::keys::Listing;

/// The listings of one session.
#[derive(Default)]
pub(crate) struct Looks {
    lines: Mutex<HashMap<LineId, Arc<Turns>>>,
    count: AtomicU64,
}

/// The turn to list a line, one at a time, with the last listing and its begin.
type Turns = AsyncMutex<Option<(u64, Arc<Listing>)>>;

impl Looks {
    /// Lists a line, or returns the result of a listing that began after this call.
    pub(crate) async fn share<E>(
        &self,
        line: &LineId,
        look: impl Future<Output = Result<Listing, E>>,
    ) -> Result<Arc<Listing>, E> {
        let asked = self.count.fetch_add(1, Ordering::Relaxed);
        // Dropped last, also if this future is dropped.
        let _listed = Listed { looks: self, line };
        let turns = self.lines().entry(line.clone()).or_default().clone();
        let mut last = turns.lock().await;
        if let Some((_, seen)) = last.as_ref().filter(|(begun, _)| *begun > asked) {
            return Ok(seen.clone());
        }
        let begun = self.count.fetch_add(1, Ordering::Relaxed);
        let seen = look.await.map(Arc::new);
        *last = seen.as_ref().ok().map(|seen| (begun, seen.clone()));
        seen
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<LineId, Arc<Turns>>> {
        self.lines.lock()
    }
}

/// Keeps a line in the map as long as a caller lists it, or waits for a listing.
struct Listed<'a> {
    looks: &'a Looks,
    line: &'a LineId,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let mut lines = self.looks.lines();
        if lines.get(self.line).is_some_and(|turns| Arc::strong_count(turns) == 1) {
            lines.remove(self.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt as _;
    use futures_util::future::join_all;
    use tenure_core::Key;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn who_asks_while_a_look_is_under_way_shares_the_next_one() {
        let (looks, line) = (Looks::default(), LineId::of(&Key::new("k").unwrap()));
        let (begun, gate) = (AtomicU64::new(0), Semaphore::new(0));
        let look = async || {
            begun.fetch_add(1, Ordering::SeqCst);
            gate.acquire().await.unwrap().forget();
            Ok::<_, ()>(Listing::default())
        };
        let all = join_all((0..10).map(|_| looks.share(&line, look())));
        let open = async { gate.add_permits(10) };
        let (seen, ()) = futures_util::future::join(all, open).await;
        assert!(seen.iter().all(Result::is_ok));
        assert_eq!(begun.load(Ordering::SeqCst), 2, "the first, and one for all others");
        looks.share(&line, look()).await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 3, "a later one looks by itself");
        assert!(looks.lines().is_empty());
    }

    #[tokio::test]
    async fn looks_that_are_given_up_leave_nothing_behind() {
        let (looks, line) = (Looks::default(), LineId::of(&Key::new("k").unwrap()));
        let look = async || looks.share(&line, pending::<Result<_, ()>>()).await;
        {
            let (mut first, mut second) = (Box::pin(look()), Box::pin(look()));
            assert!((&mut first).now_or_never().is_none());
            assert!((&mut second).now_or_never().is_none());
            drop(first);
            assert_eq!(looks.lines().len(), 1, "another one wants to look");
            assert!((&mut second).now_or_never().is_none());
        }
        assert!(looks.lines().is_empty());
    }
}
