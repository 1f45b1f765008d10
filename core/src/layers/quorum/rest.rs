//! Stragglers: requests in flight whose answers are no longer needed, driven to their end together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::{BoxFuture, Runtime};

/// Time between two polls of the stragglers. Waking the runtime for each would cost more than the
/// request.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum polls with stragglers. Further ones are dropped, and their tickets are released.
const RESTS_MAX: usize = 1024;

pub(super) struct Stragglers {
    pub(super) host: Arc<dyn Runtime>,
    /// Time limit of a store.
    pub(super) patience: Duration,
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    rests: FuturesUnordered<BoxFuture<()>>,
    seen_to: bool,
}

impl Stragglers {
    pub(super) fn new(host: Arc<dyn Runtime>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { host, patience, pending: Mutex::default() })
    }

    /// Adds requests, which end when their time is over.
    pub(super) fn add(self: &Arc<Self>, rest: BoxFuture<()>) {
        let mut pending = self.pending();
        if pending.rests.len() >= RESTS_MAX {
            // Dropping them may release tickets, which must find the list unlocked.
            drop(pending);
            return;
        }
        pending.rests.push(rest);
        if !std::mem::replace(&mut pending.seen_to, true) {
            drop(pending);
            let this = self.clone();
            self.host.spawn(Box::pin(async move { this.see_to().await }));
        }
    }

    /// Polls all of them once, so that they do not pile up under load.
    pub(super) fn glance(&self) {
        // Another task polls them.
        if let Ok(mut pending) = self.pending.try_lock() {
            pending.hear();
        }
    }

    /// Waits until there are none.
    pub(super) async fn flush(&self) {
        while self.pending().seen_to {
            self.host.sleep(PAUSE).await;
        }
    }

    async fn see_to(&self) {
        loop {
            self.host.sleep(PAUSE).await;
            let mut pending = self.pending();
            pending.hear();
            if pending.rests.is_empty() {
                pending.seen_to = false;
                return;
            }
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn hear(&mut self) {
        while let Some(Some(())) = self.rests.next().now_or_never() {}
    }
}
