//! The kinds of contenders, by their names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::contender::{Contender, Later};

/// One way to lock on one store.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// No other kind has it: another process is told by it what it is.
    pub(crate) name: &'static str,
    /// What the tables call it.
    pub(crate) title: &'static str,
    /// How long at most a waiter sleeps before it looks again. Zero: somebody tells it.
    pub(crate) poll: Duration,
    /// Whether it keeps a lock for longer than a time that is said before. One that does not may be quicker.
    pub(crate) renews: bool,
    /// Over these servers, as the first or the second of two processes.
    pub(crate) connect: Connect,
}

pub(crate) type Connect = fn(Vec<String>, usize) -> Later<'static, Arc<dyn Contender>>;

impl Kind {
    /// Somebody tells its waiters.
    pub(crate) const fn told(name: &'static str, title: &'static str, connect: Connect) -> Self {
        Self { name, title, poll: Duration::ZERO, renews: true, connect }
    }

    /// Nobody renews its locks.
    pub(crate) const fn never_renewed(self) -> Self {
        Self { renews: false, ..self }
    }

    /// Its waiters look again after so many milliseconds at most.
    pub(crate) const fn polling(self, millis: u64) -> Self {
        Self { poll: Duration::from_millis(millis), ..self }
    }

    pub(crate) async fn connect(self, urls: &[String], side: usize) -> Arc<dyn Contender> {
        (self.connect)(urls.to_vec(), side).await
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title)
    }
}
