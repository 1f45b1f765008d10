//! A contender is whatever locks a key: the floor, Tenure or a peer, all driven in the same way.

use std::pin::Pin;
use std::time::Duration;

pub(crate) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How long each of them may hold without a renewal.
pub(crate) const TTL: Duration = Duration::from_secs(30);
/// What those say who do not wait.
pub(crate) const FAILS: &str = "fails instead of waiting";

pub(crate) trait Contender: Send + Sync {
    /// Waits for the lock of this key. Whoever fails instead says why.
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>>;

    /// How many hold this key and wait for it, if that can be asked.
    fn line<'a>(&'a self, _key: &'a str) -> Later<'a, Option<u64>> {
        Box::pin(async { None })
    }
}

/// A lock that is held, until its release is awaited.
pub(crate) struct Held {
    /// The fencing token, where there is one.
    pub(crate) token: Option<u64>,
    pub(crate) release: Later<'static, ()>,
}
