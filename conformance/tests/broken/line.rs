//! Engines that break the order, the rule, or repeated requests.

use tenure_conformance::pause;
use tenure_core::{
    Engine as _, Key, LeaveMode, LeaveOutcome, Place, Result, Share, Ticket, TicketState, WaitMode,
    Wake,
};

use crate::twist::{ghost, place_of, twist};

twist! {
    /// A release removes any holder.
    ReleasesWithoutLooking {
        async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
            let left = self.0.memory.leave(ticket, how).await?;
            if left != LeaveOutcome::Absent {
                return Ok(left);
            }
            match self.0.memory.line(&ticket.key).await?.first() {
                Some((front, _)) => self.0.memory.leave(front, how).await,
                None => Ok(left),
            }
        }
    }
}

twist! {
    /// A renewal revives a ticket.
    RenewsExpiredTickets {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let renewed = self.0.memory.renew(ticket).await?;
            if renewed.is_some() || place_of(&self.0.memory, ticket).await?.is_some() {
                return Ok(renewed);
            }
            self.0.memory.join(ticket, WaitMode::NoWait).await
        }
    }
}

/// A capacity of one more, for all capacities that can be larger.
fn larger(ticket: &Ticket, more: u32) -> Ticket {
    let of = ticket.share.of().saturating_add(more);
    Ticket { share: Share::new(ticket.share.take(), of).unwrap_or(ticket.share), ..ticket.clone() }
}

fn smaller(ticket: Ticket, more: u32) -> Ticket {
    let of = ticket.share.of();
    let of = if of > more && of < tenure_core::SHARE_OF_MAX { of - more } else { of };
    Ticket { share: Share::new(ticket.share.take(), of).unwrap_or(ticket.share), ..ticket }
}

twist! {
    /// One more is served than fits.
    ServesOneTooMany {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            self.0.memory.join(&larger(ticket, 1), patience).await
        }

        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            self.0.memory.renew(&larger(ticket, 1)).await
        }

        async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
            let line = self.0.memory.line(key).await?;
            Ok(line.into_iter().map(|(ticket, place)| (smaller(ticket, 1), place)).collect())
        }
    }
}

twist! {
    /// It checks whether a ticket fits, and then adds it: not in one step.
    LooksBeforeItActs {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let line = self.0.memory.line(&ticket.key).await?;
            let taken: u32 = line.iter().map(|(ticket, _)| ticket.share.take()).sum();
            let fits = taken.saturating_add(ticket.share.take()) <= ticket.share.of();
            pause().await;
            let joined = self.0.memory.join(ticket, patience).await?;
            Ok(match joined {
                Some(place) if fits => Some(Place { state: TicketState::Holding, ..place }),
                joined => joined,
            })
        }
    }
}

twist! {
    /// Another capacity is adapted, not refused.
    MixesCapacities {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let line = self.0.memory.line(&ticket.key).await?;
            let of = line.first().map_or(ticket.share.of(), |(front, _)| front.share.of());
            let share = Share::new(ticket.share.take().min(of), of)?;
            self.0.memory.join(&Ticket { share, ..ticket.clone() }, patience).await
        }
    }
}

twist! {
    /// A ticket that may not wait stays in the line.
    KeepsTicketsThatMayNotWait {
        async fn join(&self, ticket: &Ticket, _: WaitMode) -> Result<Option<Place>> {
            let place = self.0.memory.join(ticket, WaitMode::Wait).await?;
            Ok(place.filter(|place| place.state == TicketState::Holding))
        }
    }
}

twist! {
    /// A ticket that may not wait overtakes the waiters.
    LetsNoWaitOvertake {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let line = self.0.memory.line(&ticket.key).await?;
            let holds = |place: &Place| place.state == TicketState::Holding;
            let held: u32 = line.iter().filter(|(_, place)| holds(place)).map(|(other, _)| other.share.take()).sum();
            let joined = self.0.memory.join(ticket, patience).await?;
            if joined.is_some() || held.saturating_add(ticket.share.take()) > ticket.share.of() {
                return Ok(joined);
            }
            let place = self.0.memory.join(ticket, WaitMode::Wait).await?;
            Ok(place.map(|place| Place { state: TicketState::Holding, ..place }))
        }
    }
}

twist! {
    /// A second join takes a second place.
    JoinsTwice {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            if place_of(&self.0.memory, ticket).await?.is_some() {
                self.0.memory.join(&ghost(ticket), patience).await?;
            }
            self.0.memory.join(ticket, patience).await
        }
    }
}

twist! {
    /// A second join moves the ticket to the back.
    JoinsAgainAtTheBack {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let place = place_of(&self.0.memory, ticket).await?;
            if place.is_some_and(|place| place.state == TicketState::Waiting) {
                self.0.memory.leave(ticket, LeaveMode::Now).await?;
            }
            self.0.memory.join(ticket, patience).await
        }
    }
}

twist! {
    /// The last ticket is served first.
    ServesTheLast {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let joined = self.0.memory.join(ticket, WaitMode::NoWait).await?;
            if joined.is_some() || patience == WaitMode::NoWait {
                return Ok(joined);
            }
            let mut stack = self.0.state.stack.lock().unwrap();
            if !stack.iter().any(|other| other.id == ticket.id) {
                stack.push(ticket.clone());
            }
            Ok(Some(waiting(stack.len())))
        }

        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let top = self.0.state.stack.lock().unwrap().last().map(|top| top.id);
            let waits = self.0.state.stack.lock().unwrap().iter().any(|other| other.id == ticket.id);
            if !waits {
                return self.0.memory.renew(ticket).await;
            }
            if top == Some(ticket.id) && let Some(place) = self.0.memory.join(ticket, WaitMode::NoWait).await? {
                self.0.state.stack.lock().unwrap().pop();
                return Ok(Some(place));
            }
            Ok(Some(waiting(1)))
        }

        async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
            let mut waited = false;
            self.0.state.stack.lock().unwrap().retain(|other| {
                waited |= other.id == ticket.id;
                other.id != ticket.id
            });
            if waited { Ok(LeaveOutcome::Waiting) } else { self.0.memory.leave(ticket, how).await }
        }

        async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
            let waits = self.0.state.stack.lock().unwrap().iter().any(|other| other.id == ticket.id);
            if waits { self.0.moment().await; Ok(Wake::Look) } else { self.0.memory.watch(ticket, seen).await }
        }

        async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
            let mut line = self.0.memory.line(key).await?;
            let stack = self.0.state.stack.lock().unwrap().clone();
            let waits = stack.into_iter().filter(|ticket| ticket.key == *key);
            line.extend(waits.enumerate().map(|(at, ticket)| (ticket, waiting(at + 1))));
            Ok(line)
        }
    }
}

fn waiting(ahead: usize) -> Place {
    let ahead = ahead as u64;
    Place { number: 0, state: TicketState::Waiting, ahead, life: None, look: None, leaving: false }
}

twist! {
    /// A waiter that leaves stays in the line.
    ForgetsThatAWaiterLeft {
        async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
            match place_of(&self.0.memory, ticket).await? {
                Some(place) if place.state == TicketState::Waiting => Ok(LeaveOutcome::Waiting),
                _ => self.0.memory.leave(ticket, how).await,
            }
        }
    }
}

twist! {
    /// A renewal does not shrink a share.
    ShrinksNoShare {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let line = self.0.memory.line(&ticket.key).await?;
            let share = line.iter().find(|(other, _)| other.id == ticket.id).map(|(other, _)| other.share);
            let share = share.unwrap_or(ticket.share);
            self.0.memory.renew(&Ticket { share, ..ticket.clone() }).await
        }
    }
}

twist! {
    /// A holder that is asked to leave is removed at once.
    BreaksAtOnce {
        async fn leave(&self, ticket: &Ticket, _: LeaveMode) -> Result<LeaveOutcome> {
            self.0.memory.leave(ticket, LeaveMode::Now).await
        }
    }
}

twist! {
    /// A holder that is asked to leave may renew.
    RenewsAHolderAskedToLeave {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let place = self.0.memory.renew(ticket).await?;
            Ok(place.map(|place| Place { leaving: false, ..place }))
        }
    }
}

twist! {
    /// A holder that is asked to leave is reported as gone.
    ReportsAHolderAskedToLeaveAsGone {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            Ok(self.0.memory.renew(ticket).await?.filter(|place| !place.leaving))
        }
    }
}

twist! {
    /// A ticket with a known id is taken for the present one, of any owner.
    LetsCopiesIn {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            let line = self.0.memory.line(&ticket.key).await?;
            let known = line.into_iter().find(|(known, _)| known.id == ticket.id);
            let owner = known.map_or_else(|| ticket.owner.clone(), |(known, _)| known.owner);
            self.0.memory.join(&Ticket { owner, ..ticket.clone() }, patience).await
        }
    }
}

twist! {
    /// Only the client that joined can remove a ticket.
    KeepsOperatorsAway {
        async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
            self.0.state.owners.lock().unwrap().insert(ticket.id, self.0.client);
            self.0.memory.join(ticket, patience).await
        }

        async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
            let owner = self.0.state.owners.lock().unwrap().get(&ticket.id).copied();
            if owner.is_some_and(|owner| owner != self.0.client) {
                return Ok(LeaveOutcome::Absent);
            }
            self.0.memory.leave(ticket, how).await
        }
    }
}

twist! {
    /// The line is shown as it was at the last inspection.
    ShowsAnOldLine {
        async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
            let now = self.0.memory.line(key).await?;
            let before = self.0.state.lines.lock().unwrap().insert(key.clone(), now.clone());
            Ok(before.unwrap_or(now))
        }
    }
}

twist! {
    /// A renewal reports the state of the last renewal.
    RenewsFromAnOldCopy {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let now = self.0.memory.renew(ticket).await?;
            let before = self.0.state.places.lock().unwrap().insert(ticket.id, now);
            Ok(before.unwrap_or(now))
        }
    }
}

twist! {
    /// A renewal does not carry the note.
    LosesNotes {
        async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
            let line = self.0.memory.line(&ticket.key).await?;
            let note = line.into_iter().find(|(other, _)| other.id == ticket.id).map(|(other, _)| other.note);
            let note = note.unwrap_or_else(|| ticket.note.clone());
            self.0.memory.renew(&Ticket { note, ..ticket.clone() }).await
        }
    }
}
