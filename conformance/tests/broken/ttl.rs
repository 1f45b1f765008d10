//! Engines that break numbers, ttls, or notifications.

use std::time::Duration;

use tenure_core::layers::Layer;
use tenure_core::{
    Engine as _, Key, LeaveMode, LeaveOutcome, Memory, Place, Result, TTL_MAX, Ticket, TicketState,
    WaitMode, Wake,
};

use crate::Store;
use crate::twist::{place_of, twist};

/// Changes every number of an answer.
pub(crate) struct Renumbers {
    pub(crate) store: Store,
    /// Maps the number of the store to another.
    pub(crate) change: fn(&Store, &Ticket, u64) -> u64,
}

/// Numbers restart when the line has been empty.
pub(crate) fn anew_when_empty(store: &Store, ticket: &Ticket, number: u64) -> u64 {
    number - store.state.bases.lock().unwrap().get(&ticket.key).copied().unwrap_or(0)
}

/// Numbers are the clock of the client, which is behind that of the client before.
pub(crate) fn by_the_clients_clock(store: &Store, _: &Ticket, number: u64) -> u64 {
    number - 1_000_000_000 * store.client
}

/// A known line continues after its last number, and ignores the clock.
pub(crate) fn after_what_is_known(store: &Store, ticket: &Ticket, number: u64) -> u64 {
    let mut known = store.state.known.lock().unwrap();
    let last = known.entry(ticket.key.clone()).or_insert(number - 1);
    let mut numbers = store.state.numbers.lock().unwrap();
    let given = *numbers.entry(ticket.id).or_insert_with(|| (*last + 1).max(ticket.floor));
    *last = given.max(ticket.floor).max(*last);
    given
}

/// Numbers are milliseconds.
pub(crate) fn too_coarse(_: &Store, _: &Ticket, number: u64) -> u64 {
    number / 1000
}

impl Renumbers {
    fn changed(&self, ticket: &Ticket, place: Option<Place>) -> Option<Place> {
        let number = |number| (self.change)(&self.store, ticket, number);
        place.map(|place| Place { number: number(place.number), ..place })
    }
}

impl Layer for Renumbers {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.store.memory
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        let first = self.store.memory.line(&ticket.key).await?.is_empty();
        let place = self.store.memory.join(ticket, patience).await?;
        if let Some(place) = place.filter(|_| first) {
            let base = place.number - 1;
            self.store.state.bases.lock().unwrap().insert(ticket.key.clone(), base);
        }
        Ok(self.changed(ticket, place))
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        Ok(self.changed(ticket, self.store.memory.renew(ticket).await?))
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        Ok(match self.store.memory.watch(ticket, seen).await? {
            Wake::Served(number) => Wake::Served((self.change)(&self.store, ticket, number)),
            Wake::Look => Wake::Look,
        })
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let mut line = self.store.memory.line(key).await?;
        for (ticket, place) in &mut line {
            place.number = (self.change)(&self.store, ticket, place.number);
        }
        Ok(line)
    }
}

/// A renewal gives another number.
pub(crate) fn another_each_time(store: &Store, _: &Ticket, number: u64) -> u64 {
    number + store.count()
}

twist! {
    /// A second renewal at once changes nothing, and is taken for a loss.
    LosesASecondRenewalAtOnce {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let place = self.0.memory.renew(ticket).await?;
            Ok(place.filter(|_| self.0.is_later_than_last(ticket)))
        }
    }
}

twist! {
    /// Floors are ignored.
    IgnoresFloors {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            self.0.memory.join(&Ticket { floor: 0, ..ticket.clone() }, patience).await
        }
    }
}

twist! {
    /// The floor of a renewal is ignored.
    IgnoresTheFloorOfRenewals {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            self.0.memory.renew(&Ticket { floor: 0, ..ticket.clone() }).await
        }
    }
}

fn living(ttl: Duration, ticket: &Ticket) -> Ticket {
    Ticket { ttl, ..ticket.clone() }
}

/// The ttl that a sound engine would report.
fn promised(ticket: &Ticket, place: Option<Place>) -> Option<Place> {
    place.map(|place| Place { life: Some(ticket.ttl), ..place })
}

twist! {
    /// A ticket never expires.
    NeverEnds {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let place = self.0.memory.join(&living(TTL_MAX, ticket), patience).await?;
            Ok(promised(ticket, place))
        }
    }
}

twist! {
    /// A ticket expires early.
    EndsTooSoon {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let place = self.0.memory.join(&living(ticket.ttl / 10 * 8, ticket), patience).await?;
            Ok(promised(ticket, place))
        }

        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let place = self.0.memory.renew(&living(ticket.ttl / 10 * 8, ticket)).await?;
            Ok(promised(ticket, place))
        }
    }
}

twist! {
    /// The reported ttl is longer than the store's.
    PromisesALongerTtl {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let place = self.0.memory.renew(ticket).await?;
            Ok(place.map(|place| Place { life: place.life.map(|life| life * 2), ..place }))
        }
    }
}

twist! {
    /// A renewal with a shorter ttl moves the end backwards.
    MovesEndsBackwards {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            self.0.bury_the_late().await?;
            let place = self.0.memory.join(ticket, patience).await?;
            self.0.lives_until(ticket, ticket.ttl);
            Ok(place)
        }

        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            self.0.bury_the_late().await?;
            self.0.lives_until(ticket, ticket.ttl);
            self.0.memory.renew(ticket).await
        }

        async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
            self.0.bury_the_late().await?;
            self.0.memory.line(key).await
        }
    }
}

twist! {
    /// A renewal does not extend the ttl.
    RenewsNothing {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let place = self.0.memory.renew(&living(Duration::ZERO, ticket)).await?;
            Ok(promised(ticket, place))
        }
    }
}

twist! {
    /// Joining again does not extend the ttl.
    JoinsAgainWithoutARenewal {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            match place_of(&self.0.memory, ticket).await? {
                Some(place) if !place.leaving => Ok(Some(place)),
                _ => self.0.memory.join(ticket, patience).await,
            }
        }
    }
}

twist! {
    /// An inspection renews the tickets that it reads.
    InspectionRenews {
        async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
            for (ticket, _) in self.0.memory.line(key).await? {
                self.0.memory.renew(&ticket).await?;
            }
            self.0.memory.line(key).await
        }
    }
}

twist! {
    /// A dead waiter stays in the line.
    DeadWaitersStay {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let joined = self.0.memory.join(ticket, WaitMode::NoWait).await?;
            if joined.is_some() || patience == WaitMode::NoWait {
                return Ok(joined);
            }
            let place = self.0.memory.join(&living(TTL_MAX, ticket), patience).await?;
            Ok(promised(ticket, place))
        }
    }
}

twist! {
    /// A ticket that is served is not notified.
    NotifiesNoServedTicket {
        async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
            if seen == TicketState::Waiting {
                return std::future::pending().await;
            }
            self.0.memory.watch(ticket, seen).await
        }
    }
}

twist! {
    /// A ticket that is removed is not notified.
    NotifiesNoLoss {
        async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
            if seen == TicketState::Holding {
                return std::future::pending().await;
            }
            self.0.memory.watch(ticket, seen).await
        }
    }
}

twist! {
    /// A change before the watch is not reported.
    NotifiesOnlyLaterChanges {
        async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
            let standing = place_of(&self.0.memory, ticket).await?.map(|place| place.state);
            if standing.is_some_and(|standing| standing != seen) {
                return std::future::pending().await;
            }
            self.0.memory.watch(ticket, seen).await
        }
    }
}

twist! {
    /// A ticket that is served is notified with a wrong number.
    NotifiesAWrongNumber {
        async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
            Ok(match self.0.memory.watch(ticket, seen).await? {
                Wake::Served(number) => Wake::Served(number + 1),
                Wake::Look => Wake::Look,
            })
        }
    }
}

twist! {
    /// A ticket that is served is neither notified, nor does a renewal show it.
    ServesOnlyAnEmptyLine {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let place = self.0.memory.renew(ticket).await?;
            let waits = self.0.state.waiters.lock().unwrap().contains(&ticket.id);
            let standing = |place: Place| if waits { TicketState::Waiting } else { place.state };
            Ok(place.map(|place| Place { state: standing(place), ..place }))
        }

        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let place = self.0.memory.join(ticket, patience).await?;
            if place.is_some_and(|place| place.state == TicketState::Waiting) {
                self.0.state.waiters.lock().unwrap().insert(ticket.id);
            }
            Ok(place)
        }

        async fn watch(&self, _: &Ticket, _: TicketState) -> Result<Wake> {
            std::future::pending().await
        }
    }
}

twist! {
    /// A leave never returns.
    NeverAnswersALeave {
        async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
            self.0.memory.leave(ticket, how).await?;
            std::future::pending().await
        }
    }
}
