//! A client's guess, for each line, whether it is free. A join chooses its first request by it, and
//! sends a second one if the guess was wrong.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::node::LineId;

/// Count of flags. Lines with the same flag share it.
const SHARES: usize = 1024;

/// A flag for each line: the last join found it free. "Free" means empty for the engine for
/// `ZooKeeper`, and for a `try_read` or `try_acquire` that there was room.
pub struct LikelyFree(Box<[AtomicBool]>);

impl Default for LikelyFree {
    fn default() -> Self {
        Self::new()
    }
}

impl LikelyFree {
    /// Returns a guess in which all lines are free.
    pub fn new() -> Self {
        Self((0..SHARES).map(|_| AtomicBool::new(true)).collect())
    }

    /// Returns whether the line was free the last time.
    pub fn seems(&self, line: &LineId) -> bool {
        self.of(line).load(Ordering::Relaxed)
    }

    /// Notes whether a join has just found the line free.
    pub fn note(&self, line: &LineId, is_free: bool) {
        self.of(line).store(is_free, Ordering::Relaxed);
    }

    fn of(&self, line: &LineId) -> &AtomicBool {
        let mut hash = DefaultHasher::new();
        line.hash(&mut hash);
        let share = hash.finish() % self.0.len() as u64;
        &self.0[usize::try_from(share).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::Key;

    use super::*;

    #[test]
    fn a_note_of_a_line_is_not_a_note_of_most_others() {
        let free = LikelyFree::new();
        let line = |n: u32| LineId::of(&Key::new(n.to_string()).unwrap());
        assert!(free.seems(&line(0)));
        free.note(&line(0), false);
        assert!(!free.seems(&line(0)));
        assert!((1..100).filter(|n| free.seems(&line(*n))).count() > 90);
        free.note(&line(0), true);
        assert!(free.seems(&line(0)));
    }
}
