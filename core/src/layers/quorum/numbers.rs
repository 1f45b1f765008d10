//! Proposed numbers: if every store accepts one as it is, all agree and no write is needed.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Quorum;
use super::poll::Poll;
use super::stores::Stores;
use crate::layers::AnyEngine;
use crate::{Key, NUMBER_MAX, Note, Owner, Place, Runtime, Share, Ticket, TicketId, WaitMode};

/// Proposed numbers are this far ahead of the stores' clocks. A larger lead would drive the numbers
/// of two alternating clients away from the clock.
const LEAD_US: u64 = 100;
/// Maximum round trip that is used: after a longer one this process was suspended.
const TRIP_US_MAX: u64 = 1_000_000;
/// The ttl of tickets that only read the stores' clocks.
const CLOCK_TTL: Duration = Duration::from_secs(10);

/// The lead of the stores' numbers over this machine's clock. It is forgotten after a while,
/// because a store's clock may have been corrected. A number ahead of the clocks is kept until they
/// reach it.
#[derive(Default)]
pub(super) struct Numbers(Mutex<Option<ClockOffset>>);

#[derive(Clone, Copy)]
struct ClockOffset {
    ahead_us: u64,
    since_us: u64,
}

/// How long the lead is kept. Learning it again costs one further write.
const KNOWN_US: u64 = 60_000_000;

impl Numbers {
    /// A number that is probably above those of all stores.
    pub(super) fn proposal(&self, host: &dyn Runtime) -> u64 {
        let now = now_us(host);
        let mut known = self.known();
        *known = known.filter(|known| now < known.since_us.saturating_add(KNOWN_US));
        known.map_or(0, |known| (now + known.ahead_us).min(NUMBER_MAX))
    }

    /// Records a number of the stores. If it is above the proposed one, they are further ahead.
    ///
    /// A store's clock advances while the proposal travels. The time counts from before the
    /// request, and the whole round trip is added.
    pub(super) fn learn(&self, trip: &RoundTrip, asked: &Ticket, number: u64) {
        let mut known = self.known();
        if known.is_none() || number > asked.floor {
            let took = trip.heard_us.saturating_sub(trip.asked_us).min(TRIP_US_MAX);
            let ahead_us = number.saturating_sub(trip.asked_us).saturating_add(took + LEAD_US);
            let since_us = known.map_or(trip.asked_us, |known| known.since_us);
            *known = Some(ClockOffset { ahead_us, since_us });
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<ClockOffset>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The times of the request and of the deciding answer.
pub(super) struct RoundTrip {
    asked_us: u64,
    heard_us: u64,
}

impl RoundTrip {
    pub(super) fn begins(host: &dyn Runtime) -> Self {
        let asked_us = now_us(host);
        Self { asked_us, heard_us: asked_us }
    }

    pub(super) fn ends(&mut self, host: &dyn Runtime) {
        self.heard_us = now_us(host);
    }
}

impl Quorum {
    /// Compares the stores' clocks by the numbers that they give to a new key. A clock that is
    /// ahead is then shown in [`QuorumHealth`](super::QuorumHealth) and in the guarantees. `stores`
    /// are the same stores in order, with names that neither the locks nor the queue use.
    pub async fn compare_clocks(&self, stores: impl IntoIterator<Item = AnyEngine>) {
        let stores = Stores::new(stores, &self.host, &self.rest);
        let id = TicketId::fresh();
        let key = Key::new(id.to_string()).expect("an id is a key");
        let (owner, note) = (Owner::shortened("who compares clocks"), Note::default());
        let asked = Ticket { id, key, share: Share::WHOLE, ttl: CLOCK_TTL, owner, note, floor: 0 };
        let attempt = stores.owe(&asked);
        let joins = attempt.iter().map(|owed| owed.clone().join(WaitMode::NoWait));
        self.stores.board.compare(&given(&stores.carry(|_| false, joins).await));
    }
}

fn now_us(host: &dyn Runtime) -> u64 {
    host.now().boot_ns / 1000
}

/// The number of each store.
pub(super) fn given(poll: &Poll<Option<Place>>) -> Vec<(usize, u64)> {
    let outcomes = poll.outcomes().enumerate();
    let granted =
        outcomes.filter_map(|(store, outcome)| Some((store, outcome?.as_ref().ok()?.as_ref()?)));
    granted.map(|(store, place)| (store, place.number)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::background::fake_runtime::FakeRuntime;

    const MILLI_US: u64 = 1000;

    #[test]
    fn a_proposal_is_above_what_the_stores_give_when_it_arrives() {
        let (host, numbers) = (FakeRuntime::default(), Numbers::default());
        let pass = |ms: u64| drop(host.sleep(Duration::from_millis(ms)));
        let asked = |floor| Ticket { floor, ..Ticket::new(Key::new("k").unwrap(), Share::WHOLE) };
        pass(1000);
        assert_eq!(numbers.proposal(&host), 0, "nothing is known");
        let mut trip = RoundTrip::begins(&host);
        let sent = now_us(&host);
        pass(3);
        trip.ends(&host);
        numbers.learn(&trip, &asked(0), sent + 500);
        let proposed = now_us(&host) + 500 + 3 * MILLI_US + LEAD_US;
        assert_eq!(numbers.proposal(&host), proposed);

        let trip = RoundTrip::begins(&host);
        numbers.learn(&trip, &asked(proposed), proposed);
        assert_eq!(numbers.proposal(&host), proposed, "it was right");
        numbers.learn(&trip, &asked(proposed), proposed + 1);
        assert_eq!(numbers.proposal(&host), proposed + 1 + LEAD_US, "a store is further ahead");
        pass(KNOWN_US / MILLI_US);
        assert_eq!(numbers.proposal(&host), 0, "its clock may have been set right");
    }
}
