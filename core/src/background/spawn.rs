//! Runs work on the background runtime for a caller that may stop polling.

use std::pin::pin;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;

use crate::Runtime;

/// Spawns `work` on the runtime, and returns a future for its output. Dropping that future cancels
/// the work. The output is `None` if the runtime has ended.
///
/// Use it for work that several callers share: it makes progress even if one caller's runtime is
/// blocked.
///
/// ```
/// use tenure::engine::BackgroundRuntime;
/// use tenure_core::spawn_cancellable;
///
/// # tenure::blocking::block_on(async {
/// let runtime = BackgroundRuntime::for_timers();
/// assert_eq!(spawn_cancellable(&runtime, async { 6 * 7 }).await, Some(42));
/// # });
/// ```
pub fn spawn_cancellable<T, F>(
    runtime: &dyn Runtime,
    work: F,
) -> impl Future<Output = Option<T>> + Send + use<T, F>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (mut answer, answered) = oneshot::channel();
    runtime.spawn(Box::pin(async move {
        // Cancellation is checked first: a cancelled join must not be sent after its ticket was
        // released.
        let outcome = match select(pin!(answer.closed()), pin!(work)).await {
            Either::Left(_) => return,
            Either::Right((outcome, _)) => outcome,
        };
        // The caller may be gone. Its ticket is then released in the background.
        let _ = answer.send(outcome);
    }));
    // The runtime drives the work; polling this future does not.
    async move { answered.await.ok() }
}
