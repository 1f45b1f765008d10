//! The names of one session in one line: numbers that are used again, the smallest first.

use std::collections::BTreeSet;

/// The names of one session in one line.
#[derive(Default)]
pub(crate) struct Names {
    /// All below this were taken once.
    next: u32,
    free: BTreeSet<u32>,
    /// How many of the tickets there are about to leave.
    pub(crate) leaving: usize,
}

impl Names {
    /// The smallest that is free.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Answers whether none is taken now. One that was never taken here is not given back.
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
