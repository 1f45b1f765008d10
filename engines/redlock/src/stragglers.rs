//! Requests in flight whose answers come too late to count. They are driven to their end together.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tenure_core::sync::Mutex;
use tenure_core::toolbox::shown;
use tenure_core::{BoxFuture, Error, Result, Runtime};

/// Time between two polls of the stragglers. Waking the runtime for each would cost more than the
/// request.
const STRAGGLERS_PAUSE: Duration = Duration::from_millis(5);
/// Maximum polls with stragglers. Further ones are dropped, and their tickets are released.
const STRAGGLERS_MAX: usize = 1024;

/// Requests in flight whose answers are no longer needed, driven to their end together.
pub(crate) struct Stragglers {
    pub(crate) host: Arc<dyn Runtime>,
    /// Time limit of a store.
    patience: Duration,
    pending: Mutex<StragglerPolls>,
}

#[derive(Default)]
struct StragglerPolls {
    polls: FuturesUnordered<BoxFuture<()>>,
    is_driven: bool,
}

impl Stragglers {
    pub(crate) fn new(host: Arc<dyn Runtime>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { host, patience, pending: Mutex::default() })
    }

    /// One request to one store, with its time limit. A panic of its engine must not affect other
    /// stores or the renewals.
    pub(crate) fn in_time<T, F: Future<Output = Result<T>>>(
        &self,
        request: F,
    ) -> impl Future<Output = Result<T>> + use<T, F> {
        let (late, patience) = (self.host.sleep(self.patience), self.patience);
        async move {
            match select(pin!(AssertUnwindSafe(request).catch_unwind()), late).await {
                Either::Left((Ok(outcome), _)) => outcome,
                Either::Left((Err(_panic), _)) => Err(Error::unavailable("its engine panicked")),
                Either::Right(_) => {
                    Err(Error::unavailable(format!("no answer within {}", shown(patience))))
                }
            }
        }
    }

    pub(crate) fn add(self: &Arc<Self>, poll: BoxFuture<()>) {
        let mut pending = self.pending.lock();
        if pending.polls.len() >= STRAGGLERS_MAX {
            // Dropping them may release tickets, which must find the list unlocked.
            drop(pending);
            return;
        }
        pending.polls.push(poll);
        if !std::mem::replace(&mut pending.is_driven, true) {
            drop(pending);
            let this = self.clone();
            self.host.spawn(Box::pin(async move { this.drive_to_end().await }));
        }
    }

    /// Polls all of them once, so that they do not pile up under load.
    pub(crate) fn drive(&self) {
        // If the list is locked, another task polls them.
        if let Some(mut pending) = self.pending.try_lock() {
            pending.drive();
        }
    }

    /// Waits until there are none.
    pub(crate) async fn flush(&self) {
        while self.pending.lock().is_driven {
            self.host.sleep(STRAGGLERS_PAUSE).await;
        }
    }

    async fn drive_to_end(&self) {
        loop {
            self.host.sleep(STRAGGLERS_PAUSE).await;
            let mut pending = self.pending.lock();
            pending.drive();
            if pending.polls.is_empty() {
                pending.is_driven = false;
                return;
            }
        }
    }
}

impl StragglerPolls {
    fn drive(&mut self) {
        while let Some(Some(())) = self.polls.next().now_or_never() {}
    }
}
