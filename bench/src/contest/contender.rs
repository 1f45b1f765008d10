//! A contender locks a key: the floor, Tenure or a peer, behind one trait.

use std::pin::Pin;
use std::time::Duration;

pub(crate) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The ttl of each lock.
pub(crate) const TTL: Duration = Duration::from_secs(30);
/// The failure of a contender that does not wait.
pub(crate) const FAILS: &str = "fails instead of waiting";

pub(crate) trait Contender: Send + Sync {
    /// Waits for the lock of this key. The error is the text of the row.
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>>;

    /// The number of holders and waiters of this key, if the contender can tell it.
    fn line<'a>(&'a self, _key: &'a str) -> Later<'a, Option<u64>> {
        Box::pin(async { None })
    }
}

/// A held lock; its release is awaited.
pub(crate) struct Held {
    /// The fencing token, if the contender has one.
    pub(crate) token: Option<u64>,
    pub(crate) release: Later<'static, ()>,
}
