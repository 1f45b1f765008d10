//! The kinds of contenders, by their names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::contender::{Contender, Later};

/// One way to lock on one store.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// A unique name, by which a helper process knows its kind.
    pub(crate) name: &'static str,
    /// Its name in the tables.
    pub(crate) title: &'static str,
    /// Maximum pause between two polls of a waiter. Zero: the server notifies it.
    pub(crate) poll: Duration,
    /// Whether it renews its locks. A kind that does not may be faster.
    pub(crate) renews: bool,
    /// The goal for its hand-over, as a multiple of Tenure's.
    pub(crate) handover_wanted: &'static str,
    /// Connects to these servers, as the first or the second of two processes.
    pub(crate) connect: Connect,
}

pub(crate) type Connect = fn(Vec<String>, usize) -> Later<'static, Arc<dyn Contender>>;

impl Kind {
    /// A kind whose waiters the server notifies.
    pub(crate) const fn notified(
        name: &'static str,
        title: &'static str,
        connect: Connect,
    ) -> Self {
        let (poll, renews, handover_wanted) = (Duration::ZERO, true, "> 1 ×");
        Self { name, title, poll, renews, handover_wanted, connect }
    }

    /// The same, without renewals.
    pub(crate) const fn never_renewed(self) -> Self {
        Self { renews: false, ..self }
    }

    /// The same, with waiters that poll after at most `millis`.
    pub(crate) const fn polling(self, millis: u64) -> Self {
        Self { poll: Duration::from_millis(millis), ..self }
    }

    /// The same, with another goal for its hand-over.
    pub(crate) const fn handed_over(self, wanted: &'static str) -> Self {
        Self { handover_wanted: wanted, ..self }
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
