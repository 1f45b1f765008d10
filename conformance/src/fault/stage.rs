//! The stage of a story with a real server: a runtime, patience with a limit, and what is asked again and again.

use std::time::{Duration, Instant};

use tenure_core::{Locks, Result};

/// How long anything may take that must happen: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// A whole story takes no longer.
const STORY_MAX: Duration = Duration::from_secs(900);
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// Plays a story on a runtime of its own, and fails if it does not end.
///
/// # Panics
///
/// When the story panics, or has not ended within three minutes.
pub fn play(story: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime begins");
    runtime.block_on(async {
        tokio::time::timeout(STORY_MAX, story).await.expect("the story ends");
    });
}

/// Waits for what must happen.
///
/// # Panics
///
/// When it has not happened within [`PATIENCE`].
pub async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(PATIENCE, happens).await;
    happened.unwrap_or_else(|_| panic!("within {PATIENCE:?} this did not happen: {what}"))
}

/// Looks again and again until it is so.
///
/// # Panics
///
/// When it is not so within [`PATIENCE`].
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "within {PATIENCE:?} this did not happen: {what}");
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

/// Waits until so many stand in the line of a key.
///
/// # Panics
///
/// When they do not within [`PATIENCE`].
pub async fn until_line(locks: &Locks, key: &str, length: usize) {
    until("so many stand in the line", async || {
        locks.line(key).await.is_ok_and(|line| line.len() == length)
    })
    .await;
}

/// Asks again for as long as the store does not answer.
///
/// # Panics
///
/// When it answers with an error after which it is known what became of the request, or not at all within
/// [`PATIENCE`].
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
