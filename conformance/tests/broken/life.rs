//! Engines that break numbers, lives, or the bell.

use std::time::Duration;

use tenure_core::layers::Layer;
use tenure_core::{
    Engine as _, Key, LeaveMode, LeaveOutcome, Memory, Place, Result, TTL_MAX, Ticket, TicketState,
    WaitMode, Wake,
};

use crate::Store;
use crate::twist::{place_of, twist};

/// Changes every number that is told.
pub(crate) struct Renumbers {
    pub(crate) store: Store,
    /// From the store's number to another.
    pub(crate) change: fn(&Store, &Ticket, u64) -> u64,
}

/// Numbers begin anew when the line has been empty.
pub(crate) fn anew_when_empty(store: &Store, ticket: &Ticket, number: u64) -> u64 {
    number - store.state.bases.lock().unwrap().get(&ticket.key).copied().unwrap_or(0)
}

/// Numbers come from the clock of the client, which is behind that of the client before.
pub(crate) fn by_the_clients_clock(store: &Store, _: &Ticket, number: u64) -> u64 {
    number - 1_000_000_000 * store.client
}

/// A line that is known goes on after its last number, whatever the clock says.
pub(crate) fn after_what_is_known(store: &Store, ticket: &Ticket, number: u64) -> u64 {
    let mut known = store.state.known.lock().unwrap();
    let last = known.entry(ticket.key.clone()).or_insert(number - 1);
    let mut numbers = store.state.numbers.lock().unwrap();
    let given = *numbers.entry(ticket.id).or_insert_with(|| (*last + 1).max(ticket.floor));
    *last = given.max(ticket.floor).max(*last);
    given
}

/// Numbers are of milliseconds.
pub(crate) fn too_coarse(_: &Store, _: &Ticket, number: u64) -> u64 {
    number / 1000
}

impl Renumbers {
    fn told(&self, ticket: &Ticket, place: Option<Place>) -> Option<Place> {
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
        Ok(self.told(ticket, place))
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        Ok(self.told(ticket, self.store.memory.renew(ticket).await?))
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

/// Who renews is given another number.
pub(crate) fn another_each_time(store: &Store, _: &Ticket, number: u64) -> u64 {
    number + store.count()
}

twist! {
    /// A renewal in the same breath as the last one changes nothing, and so is taken for a loss.
    LosesWhoRenewsTwiceAtOnce {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let place = self.0.memory.renew(ticket).await?;
            Ok(place.filter(|_| self.0.is_later_than_last(ticket)))
        }
    }
}

twist! {
    /// Floors are not heard of.
    IgnoresFloors {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            self.0.memory.join(&Ticket { floor: 0, ..ticket.clone() }, patience).await
        }
    }
}

twist! {
    /// The floor of a renewal is not heard of.
    IgnoresTheFloorOfRenewals {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            self.0.memory.renew(&Ticket { floor: 0, ..ticket.clone() }).await
        }
    }
}

fn living(ttl: Duration, ticket: &Ticket) -> Ticket {
    Ticket { ttl, ..ticket.clone() }
}

/// The life that a good engine would tell.
fn promised(ticket: &Ticket, place: Option<Place>) -> Option<Place> {
    place.map(|place| Place { life: Some(ticket.ttl), ..place })
}

twist! {
    /// A life never ends.
    NeverEnds {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let place = self.0.memory.join(&living(TTL_MAX, ticket), patience).await?;
            Ok(promised(ticket, place))
        }
    }
}

twist! {
    /// A life ends before its time.
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
    /// A life is longer in its owner's ears than in the store.
    PromisesMoreLife {
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
    /// A renewal is no sign of life.
    RenewsNothing {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let place = self.0.memory.renew(&living(Duration::ZERO, ticket)).await?;
            Ok(promised(ticket, place))
        }
    }
}

twist! {
    /// Joining again is no sign of life.
    JoinsAgainWithoutASign {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            match place_of(&self.0.memory, ticket).await? {
                Some(place) if !place.leaving => Ok(Some(place)),
                _ => self.0.memory.join(ticket, patience).await,
            }
        }
    }
}

twist! {
    /// Whoever looks keeps alive what it sees.
    LookingIsASign {
        async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
            for (ticket, _) in self.0.memory.line(key).await? {
                self.0.memory.renew(&ticket).await?;
            }
            self.0.memory.line(key).await
        }
    }
}

twist! {
    /// A waiter who dies stays in the line.
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
    /// The bell does not ring for who is served.
    RingsForNobody {
        async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
            if seen == TicketState::Waiting {
                return std::future::pending().await;
            }
            self.0.memory.watch(ticket, seen).await
        }
    }
}

twist! {
    /// The bell does not ring for who is taken out.
    RingsForNoLoss {
        async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
            if seen == TicketState::Holding {
                return std::future::pending().await;
            }
            self.0.memory.watch(ticket, seen).await
        }
    }
}

twist! {
    /// What happened before the watch is not told.
    RingsOnlyForWhatComes {
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
    /// The bell rings for who is served, and names a wrong number.
    RingsWithAWrongNumber {
        async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
            Ok(match self.0.memory.watch(ticket, seen).await? {
                Wake::Served(number) => Wake::Served(number + 1),
                Wake::Look => Wake::Look,
            })
        }
    }
}

twist! {
    /// Who is served is neither rung for nor shown it.
    ServesOnlyThoseWhoComeToAnEmptyLine {
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
    /// Leaving never answers.
    NeverAnswersALeave {
        async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
            self.0.memory.leave(ticket, how).await?;
            std::future::pending().await
        }
    }
}
