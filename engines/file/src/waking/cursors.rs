//! Cursors: the positions of onlookers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tenure_core::event::Cursor;

/// Maximum cursors. Beyond that the oldest are forgotten.
const CURSORS_MAX: usize = 4096;

/// A position in the journal of each book that an onlooker looks at.
pub(crate) type Positions = Arc<[Option<u64>]>;

/// The cursors that this engine has given, and their positions. The same positions are the same
/// cursor.
#[derive(Default)]
pub(crate) struct Cursors {
    last: u64,
    positions: BTreeMap<u64, Positions>,
    given: HashMap<Positions, u64>,
}

impl Cursors {
    /// Returns the cursor for these positions.
    pub(crate) fn give(&mut self, positions: Positions) -> Cursor {
        if let Some(cursor) = self.given.get(&positions) {
            return Cursor(*cursor);
        }
        self.last += 1;
        self.positions.insert(self.last, positions.clone());
        self.given.insert(positions, self.last);
        if self.positions.len() > CURSORS_MAX
            && let Some((_, oldest)) = self.positions.pop_first()
        {
            self.given.remove(&oldest);
        }
        Cursor(self.last)
    }

    /// Returns the positions of a cursor, if it is still known.
    pub(crate) fn mean(&self, cursor: Cursor) -> Option<Positions> {
        self.positions.get(&cursor.0).cloned()
    }
}
