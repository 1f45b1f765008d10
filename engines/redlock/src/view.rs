//! Inspection and breaks: the holders are the tickets of a majority, followed by the wait queue.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures_util::future::join;
use tenure_core::layers::AnyEngine;
use tenure_core::toolbox::{JoinState, incomplete, known_keys};
use tenure_core::{
    Engine as _, Key, LeaveMode, LeaveOutcome, Place, Result, Ticket, TicketId, TicketState,
};

use crate::owed_ticket::OwedTicket;
use crate::poll::Poll;
use crate::{Quorum, Stage, TicketRecord};

type ListedLine = Vec<(Ticket, Place)>;

/// The tickets that a majority serves. The number of another client's ticket is the highest of any
/// store: its token, or a larger number of a late store.
fn holders(stores: &Poll<ListedLine>, majority: usize) -> ListedLine {
    let mut found: HashMap<TicketId, (usize, Ticket, Place)> = HashMap::new();
    for (ticket, place) in stores.answers().flatten() {
        let (votes, shown, best) =
            found.entry(ticket.id).or_insert_with(|| (0, whole(ticket), *place));
        *votes += usize::from(place.state == TicketState::Holding);
        if place.life > best.life {
            // It was renewed last, so its note and share are the newest.
            *shown = whole(ticket);
        }
        best.number = best.number.max(place.number);
        best.life = best.life.max(place.life);
        best.leaving |= place.leaving;
    }
    let served = found.into_values().filter(|(votes, ..)| *votes >= majority);
    served.map(|(_, ticket, place)| (ticket, place)).collect()
}

/// The ticket of an attempt.
fn whole(ticket: &Ticket) -> Ticket {
    Ticket { id: ticket.id.whole(), ..ticket.clone() }
}

impl Quorum {
    /// Reads the lines of a key in all stores, and the wait queues. A majority of the stores has to
    /// answer. Waiters are shown if their store answers.
    async fn views(&self, key: &Key) -> Result<(Poll<ListedLine>, Poll<ListedLine>)> {
        let line = |engine: AnyEngine| {
            let key = key.clone();
            async move { engine.line(&key).await }
        };
        let looks = join(self.stores.ask(|_| false, line), self.queues.ask(|_| false, line)).await;
        looks.0.enough_answers(self.stores.majority())?;
        Ok(looks)
    }

    /// Holders first, then waiters.
    pub(crate) async fn line_of_majority(&self, key: &Key) -> Result<ListedLine> {
        let (stores, queues) = self.views(key).await?;
        let mut line = holders(&stores, self.stores.majority());
        for (ticket, place) in &mut line {
            if let Some(TicketRecord { stage: Stage::Holding { number, .. }, .. }) =
                self.record(ticket.id)
            {
                place.number = number;
            }
        }
        line.sort_by_key(|(_, place)| place.number);
        let mut last = line.last().map_or(0, |(_, place)| place.number);
        let mut shown: HashSet<TicketId> = line.iter().map(|(ticket, _)| ticket.id).collect();
        // Holders are in the queue, too.
        let mut queue: Vec<&(Ticket, Place)> = queues.answers().flatten().collect();
        queue.sort_by_key(|(_, place)| place.number);
        for (ticket, place) in queue {
            if shown.insert(ticket.id.whole()) {
                // Its token will be above the tokens ahead of it, and at least its place's number.
                last = place.number.max(last + 1);
                let place = Place { number: last, state: TicketState::Waiting, ..*place };
                line.push((whole(ticket), place));
            }
        }
        let mut ahead = 0;
        for (ticket, place) in &mut line {
            place.ahead = ahead;
            ahead += u64::from(ticket.share.take());
        }
        Ok(line)
    }

    /// The keys with a ticket in a majority, and those with a waiter.
    pub(crate) async fn keys_of_majority(&self, prefix: &str) -> Result<Vec<Key>> {
        let keys = |engine: AnyEngine| {
            let prefix = prefix.to_owned();
            // A store that cannot list all of its lines has answered.
            async move { known_keys(engine.keys(&prefix).await) }
        };
        let looks = join(self.stores.ask(|_| false, keys), self.queues.ask(|_| false, keys));
        let (held, waited_for) = looks.await;
        let majority = self.stores.majority();
        let mut votes: HashMap<&Key, usize> = HashMap::new();
        let held = held.enough_answers(majority)?;
        for (keys, _) in &held {
            for key in keys {
                *votes.entry(key).or_default() += 1;
            }
        }
        // A store that cannot list all of its lines is like a silent one: a majority lists them
        // all.
        let complete = held.iter().filter(|(_, trouble)| trouble.is_none()).count();
        let trouble = held.iter().find_map(|(_, trouble)| trouble.clone());
        let trouble = trouble.filter(|_| complete < majority);
        // Without such a majority, a lock on each key of any store may be held.
        let least = if trouble.is_some() { 1 } else { majority };
        let held = votes.into_iter().filter(|(_, votes)| *votes >= least).map(|(key, _)| key);
        let all: BTreeSet<&Key> =
            held.chain(waited_for.answers().flat_map(|(keys, _)| keys)).collect();
        let all = all.into_iter().cloned().collect();
        match trouble {
            Some(error) => Err(incomplete(error, all)),
            None => Ok(all),
        }
    }

    /// Removes another client's ticket, or one that this client has given up, whether it holds or
    /// waits.
    pub(crate) async fn take_out(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let (stores, queues) = self.views(&ticket.key).await?;
        let is_own = |found: &Ticket| found.id.whole() == ticket.id.whole();
        let attempts = stores.answers().flatten().map(|(found, _)| found);
        let attempts: BTreeSet<TicketId> =
            attempts.filter(|found| is_own(found)).map(|found| found.id).collect();
        let mut outcome = LeaveOutcome::Absent;
        for id in attempts {
            match self.leave_everywhere(&Ticket { id, ..ticket.clone() }, how).await? {
                LeaveOutcome::Absent => {}
                left => outcome = left,
            }
        }
        let places = queues.answers_by_store().flat_map(|(store, line)| {
            let own = line.iter().map(|(found, _)| found).filter(|found| is_own(found));
            own.map(move |found| (store, found.clone()))
        });
        let places: Vec<(usize, Ticket)> = places.collect();
        if places.is_empty() || outcome == LeaveOutcome::Requested {
            // A holder that was asked to leave passes its turn when it leaves.
            return Ok(outcome);
        }
        if outcome == LeaveOutcome::Absent {
            let ttl = places.iter().map(|(_, place)| place.ttl).max();
            self.mark_as_broken(ticket.id, ttl.unwrap_or(ticket.ttl)).await?;
            outcome = LeaveOutcome::Waiting;
        }
        for (store, place) in places {
            let owed = OwedTicket::new(&self.queues.nodes[store], place, Some(JoinState::InLine));
            self.stragglers.in_time(owed.leave()).await?;
        }
        Ok(outcome)
    }
}
