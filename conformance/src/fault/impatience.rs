//! Impatience: many callers of a store that is gone, each of whom gives up at once and asks again.

use std::time::{Duration, Instant};

use tenure_core::Locks;
use tokio::task::JoinSet;
use tokio::time::timeout;

const CALLERS: u32 = 16;
const PATIENCE: Duration = Duration::from_millis(20);
const FOR_SO_LONG: Duration = Duration::from_secs(5);

/// Sixteen callers ask for five seconds, each for a key of its own. Answers how long it took.
///
/// # Panics
///
/// If one of them gets its lock.
pub async fn impatience(locks: &Locks) -> Duration {
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let locks = locks.clone();
        callers.spawn(async move {
            while began.elapsed() < FOR_SO_LONG {
                let mutex = locks.mutex(format!("key {caller}"));
                if let Ok(Ok(_)) = timeout(PATIENCE, mutex.lock()).await {
                    panic!("nobody is there");
                }
            }
        });
    }
    callers.join_all().await;
    began.elapsed()
}
