//! Helpers for a test with a real server: a runtime, a time limit, and polling.

use std::time::{Duration, Instant};

use tenure_core::{Locks, MutexGuard, Result};

/// Time limit of each wait. The machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// Time limit of a whole test.
const STORY_MAX: Duration = Duration::from_secs(900);
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// Runs a test on a runtime of its own.
///
/// # Panics
///
/// If the test panics, or does not end within `STORY_MAX`.
pub fn play(story: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime can start");
    runtime.block_on(async {
        tokio::time::timeout(STORY_MAX, story).await.expect("the story ends");
    });
}

/// Waits for an event that must happen.
///
/// # Panics
///
/// If it has not happened within [`PATIENCE`].
pub async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(PATIENCE, happens).await;
    happened.unwrap_or_else(|_| panic!("within {PATIENCE:?} this did not happen: {what}"))
}

/// Polls a condition until it is true.
///
/// # Panics
///
/// If it is not true within [`PATIENCE`].
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "within {PATIENCE:?} this did not happen: {what}");
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

/// Waits until the line of a key has this length.
///
/// # Panics
///
/// If it has not within [`PATIENCE`].
pub async fn until_line(locks: &Locks, key: &str, length: usize) {
    until("so many stand in the line", async || {
        locks.line(key).await.is_ok_and(|line| line.len() == length)
    })
    .await;
}

/// Waits until each of these leases has been renewed once more, or is lost.
///
/// # Panics
///
/// If that does not happen within [`PATIENCE`].
pub async fn until_renewed(guards: &[MutexGuard]) {
    let end = |guard: &MutexGuard| Instant::now() + guard.remaining().unwrap_or_default();
    let before: Vec<_> = guards.iter().map(end).collect();
    let mut left = guards.iter().zip(before).peekable();
    until("each lease is renewed", async || {
        let is_done = |(guard, before): &(&MutexGuard, Instant)| {
            guard.check().is_err() || end(guard) > *before + Duration::from_secs(1)
        };
        while left.next_if(is_done).is_some() {}
        left.peek().is_none()
    })
    .await;
}

/// Repeats a request while the store does not answer.
///
/// # Panics
///
/// If the error is not retryable, or the store does not answer within [`PATIENCE`].
pub async fn at_last<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T>) -> T {
    soon(what, async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    })
    .await
}

/// Repeats a request of a task while the store does not answer. The caller has the time limit.
///
/// # Panics
///
/// If the error is not retryable.
pub async fn again<T, F: Future<Output = Result<T>>>(mut ask: impl FnMut() -> F) -> T {
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
}
