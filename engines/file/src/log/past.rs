//! The past of a log is the records that later ones have undone. A process that reads the log for
//! the first time need not replay them: most tickets have left long ago.

use std::collections::HashMap;

use tenure_core::TicketId;

use crate::log::frame;
use crate::log::record::{Glance, glance};
use crate::log::state::FAR_US;

/// Minimum bytes of a log for this: a shorter one is replayed as quickly.
const LOG_BYTES_MIN: usize = 4096;

/// The records to skip, and the facts to keep of them.
#[derive(Default)]
pub(crate) struct Past {
    /// The place at which each ticket left, of those that have.
    left: HashMap<TicketId, u64>,
    /// No number of these tickets was above this.
    pub(crate) floor: u64,
    /// The time of the last of these records.
    pub(crate) last_us: u64,
}

impl Past {
    /// Reads the records of `log`, which begins at place `at` of its file, up to `until`.
    pub(crate) fn of(mut log: &[u8], mut at: u64, until: u64) -> Self {
        let mut past = Self::default();
        if log.len() < LOG_BYTES_MIN {
            return past;
        }
        let mut numbers: HashMap<TicketId, u64> = HashMap::new();
        while at < until
            && let Some(body) = frame::peek(log)
        {
            if let Some(Glance { id, number, out, at_us }) = glance(body) {
                past.last_us = past.last_us.max(at_us);
                let last = numbers.entry(id).or_default();
                *last = number.max(*last);
                if out {
                    past.left.insert(id, at);
                }
            }
            let length = frame::HEAD_BYTES + body.len();
            at += length as u64;
            log = &log[length..];
        }
        // A number far from the clock belongs to its own line, which is replayed.
        let near = past.last_us.saturating_add(FAR_US);
        past.left.retain(|id, _| numbers[id] <= near);
        past.floor = past.left.keys().map(|id| numbers[id]).max().unwrap_or(0);
        past
    }

    /// Returns whether the record at this place need not be replayed: its ticket left later.
    pub(crate) fn is_over(&self, body: &[u8], at: u64) -> bool {
        !self.left.is_empty()
            && glance(body)
                .and_then(|glance| self.left.get(&glance.id))
                .is_some_and(|left| at <= *left)
    }
}
