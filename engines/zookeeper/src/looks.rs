//! Looks at lines: those who want to see the same line at the same time share one look, which begins after all of them asked.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_queue::LineId;
use tokio::sync::Mutex as AsyncMutex;

use crate::keys::Listing;

/// The looks of one session.
#[derive(Default)]
pub(crate) struct Looks {
    lines: Mutex<HashMap<LineId, Arc<Turns>>>,
    count: AtomicU64,
}

/// One looks at a line at a time. What was seen last, and when that look began.
type Turns = AsyncMutex<Option<(u64, Arc<Listing>)>>;

impl Looks {
    /// Looks, or learns from a look that began after this was called.
    pub(crate) async fn share<E>(
        &self,
        line: &LineId,
        look: impl Future<Output = Result<Listing, E>>,
    ) -> Result<Arc<Listing>, E> {
        let asked = self.count.fetch_add(1, Ordering::Relaxed);
        let turns = self.lines().entry(line.clone()).or_default().clone();
        let seen = {
            let mut last = turns.lock().await;
            if let Some((_, seen)) = last.as_ref().filter(|(begun, _)| *begun > asked) {
                Ok(seen.clone())
            } else {
                let begun = self.count.fetch_add(1, Ordering::Relaxed);
                let seen = look.await.map(Arc::new);
                *last = seen.as_ref().ok().map(|seen| (begun, seen.clone()));
                seen
            }
        };
        let mut lines = self.lines();
        // The map and this call have it, and nobody else wants it.
        if Arc::strong_count(&turns) == 2 {
            lines.remove(line);
        }
        seen
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<LineId, Arc<Turns>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
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
}
