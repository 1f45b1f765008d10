//! Work that others wait for, too, goes on beside whoever asked for it.

use std::panic::resume_unwind;

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;

use crate::link_pool::driven;

/// A task that ends with whoever waits for it.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Carries this out here as far as it goes at once, and the rest in a task of this runtime: whoever asked may stand still in the
/// middle. It ends with this future. `None`: the runtime has ended before.
pub async fn spawn_and_join<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let mut work = work.boxed();
    // What is sent to a server is sent in the order in which it was asked for.
    if let Some(outcome) = (&mut work).now_or_never() {
        return Some(outcome);
    }
    match driven() {
        Some(here) => match (&mut AbortOnDrop(here.spawn(work)).0).await {
            Ok(outcome) => Some(outcome),
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => None,
            },
        },
        None => Some(work.await),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn it_goes_on_while_nobody_polls_it_and_ends_when_it_is_dropped() {
        let (go, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut ways = (0..2).map(|_| {
            let (go, done) = (go.clone(), done.clone());
            let mut work = spawn_and_join(async move {
                go.notified().await;
                done.notify_one();
            })
            .boxed();
            assert!((&mut work).now_or_never().is_none());
            work
        });
        let (still, dropped) = (ways.next(), ways.next());
        drop(dropped);
        // The task that ends lets go of what it has.
        while Arc::strong_count(&done) > 2 {
            tokio::task::yield_now().await;
        }
        go.notify_waiters();
        done.notified().await;
        assert!(done.notified().now_or_never().is_none(), "what was dropped has ended");
        assert_eq!(still.unwrap().await, Some(()));
    }

    #[test]
    fn what_needs_no_runtime_needs_none_here() {
        assert_eq!(spawn_and_join(async { 46 }).now_or_never(), Some(Some(46)));
    }

    #[test]
    fn a_runtime_that_was_only_entered_is_given_nothing_to_do() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        let (go, going) = tokio::sync::oneshot::channel();
        let late = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            go.send(46).unwrap();
        });
        let answer = tenure_core::blocking::block_on(spawn_and_join(going));
        assert_eq!(answer, Some(Ok(46)));
        late.join().unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_in_it_is_one_of_whoever_waits() {
        let work = spawn_and_join(async {
            tokio::task::yield_now().await;
            panic!("it goes wrong");
        });
        let outcome = std::panic::AssertUnwindSafe(work).catch_unwind().await;
        assert!(outcome.is_err());
    }
}
