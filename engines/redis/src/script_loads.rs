//! The count of loads of the scripts, which a server may forget.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::RedisResult;
use tokio::sync::Mutex;

/// The count of loads of the scripts over one connection.
#[derive(Default)]
pub(crate) struct ScriptLoads {
    times: AtomicU64,
    one: Mutex<()>,
}

impl ScriptLoads {
    pub(crate) fn times(&self) -> u64 {
        self.times.load(Ordering::Acquire)
    }

    /// Loads the scripts, unless another caller has since this count.
    pub(crate) async fn once_more(
        &self,
        before: u64,
        tell: impl Future<Output = RedisResult<()>>,
    ) -> RedisResult<()> {
        let _one = self.one.lock().await;
        if self.times() == before {
            tell.await?;
            self.times.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }
}
