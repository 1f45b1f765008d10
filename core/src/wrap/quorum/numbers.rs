//! Numbers that every store can take as they are: then all agree at once, and nothing is written back.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Host, NUMBER_MAX, Ticket};

/// Numbers are proposed this far ahead of the last that was seen.
const LEAD_US: u64 = 1_000;

/// How far the stores' numbers are ahead of this host's clock, as far as is known.
#[derive(Default)]
pub(super) struct Numbers(Mutex<Option<u64>>);

impl Numbers {
    /// A number that is most likely above those of all stores.
    pub(super) fn proposal(&self, host: &dyn Host) -> u64 {
        let ahead = *self.ahead();
        ahead.map_or(0, |ahead| (now_us(host) + ahead).min(NUMBER_MAX))
    }

    /// The stores gave this number: where it is above the one that was proposed, they are further ahead.
    pub(super) fn learn(&self, host: &dyn Host, asked: &Ticket, number: u64) {
        let mut ahead = self.ahead();
        if ahead.is_none() || number > asked.floor {
            *ahead = Some(number.saturating_sub(now_us(host)).saturating_add(LEAD_US));
        }
    }

    fn ahead(&self) -> MutexGuard<'_, Option<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now_us(host: &dyn Host) -> u64 {
    host.now().boot_ns / 1000
}
