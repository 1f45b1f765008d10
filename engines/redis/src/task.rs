//! Work that several callers share runs in a task of its own.

use std::panic::resume_unwind;

use futures_util::FutureExt as _;
use tenure_kit::driven_runtime;
use tokio::task::JoinSet;

/// Polls `work` once, and spawns it if it is not done: it makes progress when the caller does not.
/// Without a runtime the caller drives it. Dropping this future aborts the task. Returns `None` if
/// the runtime shut down.
pub(crate) async fn spawn_and_join<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let mut work = work.boxed();
    // The first poll sends the request, so that requests leave in the order of the calls.
    if let Some(outcome) = (&mut work).now_or_never() {
        return Some(outcome);
    }
    let Some(runtime) = driven_runtime() else { return Some(work.await) };
    // Dropping the set aborts the task.
    let mut task = JoinSet::new();
    task.spawn_on(work, &runtime);
    match task.join_next().await? {
        Ok(outcome) => Some(outcome),
        Err(error) => error.try_into_panic().map_or(None, |panic| resume_unwind(panic)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_work_goes_on_without_polls_and_ends_when_it_is_dropped() {
        let (go, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut both = (0..2).map(|_| {
            let (go, done) = (go.clone(), done.clone());
            let mut work = spawn_and_join(async move {
                go.notified().await;
                done.notify_one();
            })
            .boxed();
            assert!((&mut work).now_or_never().is_none());
            work
        });
        let (still, dropped) = (both.next(), both.next());
        drop(dropped);
        // The aborted task drops its clones.
        while Arc::strong_count(&done) > 2 {
            tokio::task::yield_now().await;
        }
        go.notify_waiters();
        done.notified().await;
        assert!(done.notified().now_or_never().is_none(), "the dropped work has ended");
        assert_eq!(still.unwrap().await, Some(()));
    }

    #[test]
    fn work_that_is_done_at_once_needs_no_runtime() {
        assert_eq!(spawn_and_join(async { 46 }).now_or_never(), Some(Some(46)));
    }

    #[test]
    fn a_runtime_that_was_only_entered_gets_no_task() {
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
    async fn a_panic_of_the_work_reaches_the_caller() {
        let work = spawn_and_join(async {
            tokio::task::yield_now().await;
            panic!("it goes wrong");
        });
        let outcome = std::panic::AssertUnwindSafe(work).catch_unwind().await;
        assert!(outcome.is_err());
    }
}
