//! The life of a session's tasks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The life of one session's tasks.
pub(crate) struct Life {
    began: Instant,
    /// The last look at the home runtime, counted from the beginning.
    seen_ms: AtomicU64,
    /// Maximum time between two looks at the home runtime.
    patience_ms: AtomicU64,
    /// The home runtime has ended.
    home_has_ended: AtomicBool,
    stopped: AtomicBool,
    /// When the tasks are dropped at any point, counted from the beginning.
    due_ms: AtomicU64,
}

impl Life {
    /// Returns a life that begins now, without an end yet.
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            seen_ms: AtomicU64::new(0),
            patience_ms: AtomicU64::new(u64::MAX),
            home_has_ended: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            due_ms: AtomicU64::new(u64::MAX),
        }
    }

    /// Notes that the home runtime runs, and that the next look comes within `patience`.
    pub(crate) fn see(&self, patience: Duration) {
        self.patience_ms.store(millis(patience), Ordering::Relaxed);
        self.seen_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Returns whether the home runtime was seen lately.
    pub(crate) fn has_home(&self) -> bool {
        let gone = self.now_ms().saturating_sub(self.seen_ms.load(Ordering::Relaxed));
        gone <= self.patience_ms.load(Ordering::Relaxed) && !self.has_home_ended()
    }

    pub(crate) fn end_home(&self) {
        self.home_has_ended.store(true, Ordering::Release);
    }

    pub(crate) fn has_home_ended(&self) -> bool {
        self.home_has_ended.load(Ordering::Acquire)
    }

    /// Stops driving the tasks.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Drives the tasks again, for this time at most. Returns whether they were stopped.
    pub(crate) fn let_go(&self, within_ms: u64) -> bool {
        // `u64::MAX` stands for no end.
        let due = self.now_ms().saturating_add(within_ms).min(u64::MAX - 1);
        self.due_ms.store(due, Ordering::Release);
        self.stopped.swap(false, Ordering::AcqRel)
    }

    /// Returns whether the leash was dropped.
    pub(crate) fn is_let_go(&self) -> bool {
        self.due_ms.load(Ordering::Acquire) < u64::MAX
    }

    /// Returns whether the time of the tasks to end is over.
    pub(crate) fn is_due(&self) -> bool {
        self.is_let_go() && self.now_ms() >= self.due_ms.load(Ordering::Acquire)
    }

    fn now_ms(&self) -> u64 {
        millis(self.began.elapsed())
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
