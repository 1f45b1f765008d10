//! Impatience: many callers of an unreachable store, each of which gives up at once and tries
//! again.

use std::time::{Duration, Instant};

use tenure_core::Locks;
use tokio::task::JoinSet;
use tokio::time::timeout;

const CALLERS: u32 = 16;
const PATIENCE: Duration = Duration::from_millis(20);
const FOR_SO_LONG: Duration = Duration::from_secs(5);

/// Runs sixteen callers for five seconds, each with its own key. Returns the time that it took.
///
/// # Panics
///
/// If a caller gets its lock.
pub async fn impatience(locks: &Locks) -> Duration {
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let locks = locks.clone();
        callers.spawn(async move {
            while began.elapsed() < FOR_SO_LONG {
                let mutex = locks.mutex(format!("key {caller}"));
                if let Ok(Ok(_)) = timeout(PATIENCE, mutex.lock()).await {
                    panic!("a lock of an unreachable store was granted");
                }
            }
        });
    }
    callers.join_all().await;
    began.elapsed()
}
