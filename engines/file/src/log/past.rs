//! The past of a log is what later records of it have undone. Whoever reads the log for the first
//! time need not do it all again: most tickets have left long ago.

use std::collections::HashMap;

use tenure_core::TicketId;

use crate::log::frame;
use crate::log::record::{Glance, glance};
use crate::log::state::FAR_US;

/// A log shorter than this is replayed as quickly as it is looked through.
const LOG_BYTES_MIN: usize = 4096;

/// What need not be replayed, and what has to be remembered of it.
#[derive(Default)]
pub(crate) struct Past {
    /// Where each ticket left that has.
    left: HashMap<TicketId, u64>,
    /// No number of these tickets was above this.
    pub(crate) floor: u64,
    /// When the last of it happened.
    pub(crate) last_us: u64,
}

impl Past {
    /// Looks through the records of `log`, which stands at place `at` of its file, up to `until`.
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
        // A number far from the clock is a matter of its own line: that is replayed.
        let near = past.last_us.saturating_add(FAR_US);
        past.left.retain(|id, _| numbers[id] <= near);
        past.floor = past.left.keys().map(|id| numbers[id]).max().unwrap_or(0);
        past
    }

    /// Whether the record at this place need not be replayed: its ticket left later.
    pub(crate) fn is_over(&self, body: &[u8], at: u64) -> bool {
        !self.left.is_empty()
            && glance(body)
                .and_then(|glance| self.left.get(&glance.id))
                .is_some_and(|left| at <= *left)
    }
}
