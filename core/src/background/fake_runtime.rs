//! A runtime for tests, whose time passes only during sleeps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{BoxFuture, Clock, Runtime, Time};

/// The time in nanoseconds. Its random number gives the longest pause.
#[derive(Default)]
pub(crate) struct FakeRuntime(AtomicU64);

impl Clock for FakeRuntime {
    fn now(&self) -> Time {
        let ns = self.0.load(Ordering::Relaxed);
        Time { boot_ns: ns, raw_ns: ns }
    }

    fn wall_us(&self) -> u64 {
        self.now().boot_ns / 1000
    }
}

impl Runtime for FakeRuntime {
    fn sleep(&self, duration: Duration) -> BoxFuture<()> {
        self.0.fetch_add(u64::try_from(duration.as_nanos()).unwrap(), Ordering::Relaxed);
        Box::pin(async {})
    }

    fn random(&self) -> u64 {
        u64::MAX
    }

    fn spawn(&self, _task: BoxFuture<()>) {
        unreachable!("this runtime drives no tasks");
    }
}
