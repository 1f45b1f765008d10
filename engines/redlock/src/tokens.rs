//! Numbers that a client proposes to the stores. If every store accepts one as it is, all agree,
//! and a free lock costs one round trip instead of two.

use std::time::Duration;

use tenure_core::layers::AnyEngine;
use tenure_core::sync::Mutex;
use tenure_core::{
    Key, NUMBER_MAX, Note, Owner, Place, Runtime, Share, Ticket, TicketId, WaitMode,
};

use crate::Quorum;
use crate::poll::Poll;
use crate::stores::Stores;

/// Proposed numbers are this far ahead of the stores' clocks. A larger lead would drive the numbers
/// of two alternating clients away from the clock.
const LEAD_US: u64 = 100;
/// Maximum round trip that is used: after a longer one this process was suspended.
const TRIP_US_MAX: u64 = 1_000_000;
/// How long the lead is kept. Learning it again costs one further write.
const KNOWN_US: u64 = 60_000_000;
/// The ttl of tickets that only read the stores' clocks.
const CLOCK_TTL: Duration = Duration::from_secs(10);

/// The lead of the stores' numbers over this machine's clock. It is forgotten after a while,
/// because a store's clock may have been corrected. A number ahead of the clocks is kept until they
/// reach it.
#[derive(Default)]
pub(crate) struct Proposals(Mutex<Option<ClockOffset>>);

#[derive(Clone, Copy)]
struct ClockOffset {
    ahead_us: u64,
    since_us: u64,
}

impl Proposals {
    /// A number that is probably above those of all stores.
    pub(crate) fn next(&self, now_us: u64) -> u64 {
        let mut known = self.0.lock();
        *known = known.filter(|known| now_us < known.since_us.saturating_add(KNOWN_US));
        known.map_or(0, |known| (now_us + known.ahead_us).min(NUMBER_MAX))
    }

    /// Records a number of the stores. If it is above the proposed one, they are further ahead.
    ///
    /// A store's clock advances while the proposal travels. The time counts from before the
    /// request, and the whole round trip is added.
    pub(crate) fn learn(&self, (sent_us, heard_us): (u64, u64), proposed: u64, number: u64) {
        let mut known = self.0.lock();
        if known.is_none() || number > proposed {
            let took = heard_us.saturating_sub(sent_us).min(TRIP_US_MAX);
            let ahead_us = number.saturating_sub(sent_us).saturating_add(took + LEAD_US);
            let since_us = known.map_or(sent_us, |known| known.since_us);
            *known = Some(ClockOffset { ahead_us, since_us });
        }
    }
}

impl Quorum {
    /// Compares the stores' clocks by the numbers that they give to a new key. A clock that is
    /// ahead is then shown in [`QuorumHealth`](crate::QuorumHealth) and in the guarantees. `stores`
    /// are the same stores in order, with names that neither the locks nor the wait queue use.
    pub async fn compare_clocks(&self, stores: impl IntoIterator<Item = AnyEngine>) {
        let stores = Stores::new(stores, &self.stragglers);
        let id = TicketId::fresh();
        let key = Key::new(id.to_string()).expect("an id is a key");
        let (owner, note) = (Owner::shortened("comparison of clocks"), Note::default());
        let asked = Ticket { id, key, share: Share::WHOLE, ttl: CLOCK_TTL, owner, note, floor: 0 };
        let attempt = stores.owe(&asked);
        let joins = attempt.iter().map(|owed| owed.clone().join(WaitMode::NoWait));
        let poll = stores.ask_each(|_| false, joins).await;
        self.stores.health.compare(&numbers(&poll));
    }
}

pub(crate) fn now_us(host: &dyn Runtime) -> u64 {
    host.now().boot_ns / 1000
}

/// The number of each store that let the ticket in.
pub(crate) fn numbers(poll: &Poll<Option<Place>>) -> Vec<(usize, u64)> {
    let places = poll.answers_by_store();
    places.filter_map(|(store, place)| Some((store, place.as_ref()?.number))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_is_above_what_the_stores_give_when_it_arrives() {
        let proposals = Proposals::default();
        assert_eq!(proposals.next(1_000_000), 0, "nothing is known");
        let (sent, heard) = (1_000_000, 1_003_000);
        proposals.learn((sent, heard), 0, sent + 500);
        let proposed = heard + 500 + 3_000 + LEAD_US;
        assert_eq!(proposals.next(heard), proposed);

        proposals.learn((heard, heard), proposed, proposed);
        assert_eq!(proposals.next(heard), proposed, "it was right");
        proposals.learn((heard, heard), proposed, proposed + 1);
        assert_eq!(proposals.next(heard), proposed + 1 + LEAD_US, "a store is further ahead");
        assert_eq!(proposals.next(heard + KNOWN_US), 0, "its clock may have been set right");
    }
}
