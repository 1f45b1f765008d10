//! The names of one session in one line: numbers that are used again, the smallest first.

use std::collections::BTreeSet;

/// The names of one session in one line.
#[derive(Default)]
pub(crate) struct Names {
    /// All below this were taken once.
    next: u32,
    free: BTreeSet<u32>,
    /// Count of tickets that are about to leave.
    pub(crate) leaving: usize,
}

impl Names {
    /// Takes the smallest free name.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Returns a name. Ignores one that was never taken here. Returns whether none is taken now.
    pub(crate) fn give_back(&mut self, nth: u32) -> bool {
        if nth < self.next {
            self.free.insert(nth);
        }
        self.taken() == 0
    }

    pub(crate) fn taken(&self) -> usize {
        self.next as usize - self.free.len()
    }
}
