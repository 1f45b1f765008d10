//! Errands: a host carries out what its caller must not hold up.

use std::pin::pin;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;

use crate::Runtime;

/// Carries this out on the host from now on, for as long as somebody waits for its answer: what nobody waits for must not
/// pile up where the store is silent. `None`: the host has ended before.
///
/// For what others may wait for as well, too: whoever asks for it may stand still in the middle, with its whole runtime,
/// and keeps nobody else out.
///
/// ```
/// use tenure::engine::BackgroundRuntime;
/// use tenure_core::spawn_cancellable;
///
/// # tenure::blocking::block_on(async {
/// let host = BackgroundRuntime::for_timers();
/// assert_eq!(spawn_cancellable(&host, async { 6 * 7 }).await, Some(42));
/// # });
/// ```
pub fn spawn_cancellable<T, F>(
    host: &dyn Runtime,
    errand: F,
) -> impl Future<Output = Option<T>> + Send + use<T, F>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (mut answer, answered) = oneshot::channel();
    host.spawn(Box::pin(async move {
        // The caller comes first: a verb that goes on behind its end would be carried out after its own undoing.
        let outcome = match select(pin!(answer.closed()), pin!(errand)).await {
            Either::Left(_) => return,
            Either::Right((outcome, _)) => outcome,
        };
        // Whoever asked may be gone by now; its ticket is swept.
        let _nobody_listens = answer.send(outcome);
    }));
    // Who waits does not carry the errand along.
    async move { answered.await.ok() }
}
