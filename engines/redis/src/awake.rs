//! Staying awake: who asks for a lock looks for the answer again and again for a moment, before the thread sleeps.
//!
//! A server nearby answers sooner than a sleeping thread wakes up. Between two looks the runtime's other
//! tasks have their turn. A server far away is found out, and not waited for so.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

/// The longest anybody stays awake for an answer.
const AWAKE_MAX: Duration = Duration::from_micros(100);
/// Where no answer comes in time, one in so many tries at least finds out whether that has changed.
const REST_MAX: u32 = 256;

/// Whether it pays to stay awake for the answers of one connection.
#[derive(Default)]
pub(crate) struct Awake {
    /// So many are not stayed awake for, after one that came late.
    rest: AtomicU32,
    /// How many these will be the next time.
    next_rest: AtomicU32,
}

impl Awake {
    /// Waits for an answer.
    pub(crate) async fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        if self.rests() {
            return answer.await;
        }
        let began = Instant::now();
        while began.elapsed() < AWAKE_MAX {
            if let Some(answer) = (&mut answer).now_or_never() {
                self.next_rest.store(0, Ordering::Relaxed);
                return answer;
            }
            tokio::task::yield_now().await;
        }
        let rest = self.next_rest.load(Ordering::Relaxed).clamp(1, REST_MAX);
        self.rest.store(rest, Ordering::Relaxed);
        self.next_rest.store(rest * 2, Ordering::Relaxed);
        answer.await
    }

    fn rests(&self) -> bool {
        let one_less = |rest: u32| rest.checked_sub(1);
        self.rest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_server_that_answers_late_is_stayed_awake_for_ever_less_often() {
        let awake = Awake::default();
        let mut stayed = Vec::new();
        for count in 0..600 {
            if awake.rest.load(Ordering::Relaxed) == 0 {
                stayed.push(count);
            }
            let never = awake.wait(pending::<()>());
            assert!(tokio::time::timeout(AWAKE_MAX * 2, never).await.is_err());
        }
        assert_eq!(stayed[..6], [0, 2, 5, 10, 19, 36]);
        assert!(stayed.len() < 12, "{stayed:?}");
        while awake.rests() {}
        assert_eq!(awake.wait(ready(7)).await, 7);
        assert_eq!(awake.next_rest.load(Ordering::Relaxed), 0, "it answers soon again");
    }
}
