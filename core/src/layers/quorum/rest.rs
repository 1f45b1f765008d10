//! The rest of a question: verbs on their way whose answers nobody waits for, seen to their end
//! together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::{BoxFuture, Runtime};

/// They are looked at so often: to wake the host for each of them would cost more than the verb.
const PAUSE: Duration = Duration::from_millis(5);
/// The rests of so many questions are seen to. Those of more are dropped: what they owe is swept.
const RESTS_MAX: usize = 1024;

pub(super) struct Stragglers {
    pub(super) host: Arc<dyn Runtime>,
    /// How long a store may take to answer.
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

    /// What was sent already, and ends by itself when its time is over.
    pub(super) fn add(self: &Arc<Self>, rest: BoxFuture<()>) {
        let mut pending = self.pending();
        if pending.rests.len() >= RESTS_MAX {
            // What is dropped may be swept, which must find the list free.
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

    /// Hears of those that have ended by now, so that they do not pile up where much is asked.
    pub(super) fn glance(&self) {
        // Whoever has the list is looking.
        if let Ok(mut pending) = self.pending.try_lock() {
            pending.hear();
        }
    }

    /// Returns once there is none.
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
