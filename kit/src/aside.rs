//! Work that others wait for, too, goes on beside whoever asked for it.

use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// A task that ends with whoever waits for it.
struct Beside<T>(JoinHandle<T>);

impl<T> Drop for Beside<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Carries this out here as far as it goes at once, and the rest in a task of this runtime: whoever asked may stand still in the
/// middle. It ends with this future. `None`: the runtime has ended before.
pub async fn aside<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let mut work = work.boxed();
    // What is sent to a server is sent in the order in which it was asked for.
    if let Some(outcome) = (&mut work).now_or_never() {
        return Some(outcome);
    }
    match Handle::try_current() {
        Ok(here) => (&mut Beside(here.spawn(work)).0).await.ok(),
        Err(_) => Some(work.await),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn it_goes_on_while_nobody_polls_it_and_ends_when_it_is_dropped() {
        let (go, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut ways = (0..2).map(|_| {
            let (go, done) = (go.clone(), done.clone());
            let mut work = aside(async move {
                go.notified().await;
                done.notify_one();
            })
            .boxed();
            assert!((&mut work).now_or_never().is_none());
            work
        });
        let (still, dropped) = (ways.next(), ways.next());
        drop(dropped);
        tokio::task::yield_now().await;
        go.notify_waiters();
        done.notified().await;
        tokio::task::yield_now().await;
        assert!(done.notified().now_or_never().is_none(), "what was dropped has ended");
        assert_eq!(still.unwrap().await, Some(()));
    }

    #[test]
    fn what_needs_no_runtime_needs_none_here() {
        assert_eq!(aside(async { 46 }).now_or_never(), Some(Some(46)));
    }
}
