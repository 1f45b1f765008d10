//! The combined view of the stores: holders are the tickets of a majority, followed by the queue of
//! waiters.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures_util::future::join;

use super::Quorum;
use super::known::{Stage, TicketRecord};
use super::poll::Poll;
use crate::layers::AnyEngine;
use crate::{Engine as _, Key, Place, Result, Ticket, TicketId, TicketState};

type Line = Vec<(Ticket, Place)>;

/// The line of one key in every store.
pub(super) struct Views {
    stores: Poll<Line>,
    turns: Poll<Line>,
}

impl Views {
    /// The ids of this ticket in the stores.
    pub(super) fn attempts_of(&self, id: TicketId) -> BTreeSet<TicketId> {
        let found = self.stores.answers().flatten().map(|(ticket, _)| ticket.id);
        found.filter(|found| found.whole() == id.whole()).collect()
    }

    /// Its places in the queues, with their stores.
    pub(super) fn turns_of(&self, id: TicketId) -> Vec<(usize, Ticket)> {
        let lines = self.turns.outcomes().enumerate();
        let lines = lines.filter_map(|(store, line)| Some((store, line?.as_ref().ok()?)));
        let places =
            lines.flat_map(|(store, line)| line.iter().map(move |(ticket, _)| (store, ticket)));
        let own = places.filter(|(_, ticket)| ticket.id.whole() == id.whole());
        own.map(|(store, ticket)| (store, ticket.clone())).collect()
    }

    /// The tickets that a majority serves. The number of another client's ticket is the highest of
    /// any store: its token, or a larger number of a late store.
    fn holders(&self, majority: usize) -> Line {
        let mut found: HashMap<TicketId, (usize, Ticket, Place)> = HashMap::new();
        for (ticket, place) in self.stores.answers().flatten() {
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

    /// The tickets in the queue, in order. Holders that came through the queue are among them.
    fn places(&self) -> Line {
        let mut places: Vec<&(Ticket, Place)> = self.turns.answers().flatten().collect();
        places.sort_by_key(|(_, place)| place.number);
        places.into_iter().map(|(ticket, place)| (whole(ticket), *place)).collect()
    }
}

/// The ticket of an attempt.
fn whole(ticket: &Ticket) -> Ticket {
    Ticket { id: ticket.id.whole(), ..ticket.clone() }
}

impl Quorum {
    /// Reads all lines of a key. A majority of the stores has to answer. Waiters are shown if their
    /// store answers.
    pub(super) async fn look(&self, key: &Key) -> Result<Views> {
        let line = |engine: AnyEngine| {
            let key = key.clone();
            async move { engine.line(&key).await }
        };
        let looks = join(self.stores.ask(|_| false, line), self.turns.ask(|_| false, line));
        let (stores, turns) = looks.await;
        stores.enough_answers(self.stores.majority())?;
        Ok(Views { stores, turns })
    }

    /// Holders first, then waiters.
    pub(super) async fn line_of_majority(&self, key: &Key) -> Result<Line> {
        let seen = self.look(key).await?;
        let mut line = seen.holders(self.stores.majority());
        for (ticket, place) in &mut line {
            if let Some(TicketRecord { stage: Stage::Holding { number, .. }, .. }) =
                self.known(ticket.id)
            {
                place.number = number;
            }
        }
        line.sort_by_key(|(_, place)| place.number);
        let mut last = line.last().map_or(0, |(_, place)| place.number);
        let mut shown: HashSet<TicketId> = line.iter().map(|(ticket, _)| ticket.id).collect();
        for (ticket, place) in seen.places() {
            if shown.insert(ticket.id) {
                // Its token will be above the tokens ahead of it, and at least its place's number.
                last = place.number.max(last + 1);
                let place = Place { number: last, state: TicketState::Waiting, ..place };
                line.push((ticket, place));
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
    pub(super) async fn keys_of_majority(&self, prefix: &str) -> Result<Vec<Key>> {
        let keys = |engine: AnyEngine| {
            let prefix = prefix.to_owned();
            async move { engine.keys(&prefix).await }
        };
        let looks = join(self.stores.ask(|_| false, keys), self.turns.ask(|_| false, keys));
        let (held, waited_for) = looks.await;
        let majority = self.stores.majority();
        let mut votes: HashMap<&Key, usize> = HashMap::new();
        for key in held.enough_answers(majority)?.into_iter().flatten() {
            *votes.entry(key).or_default() += 1;
        }
        let held = votes.into_iter().filter(|(_, votes)| *votes >= majority).map(|(key, _)| key);
        let all: BTreeSet<&Key> = held.chain(waited_for.answers().flatten()).collect();
        Ok(all.into_iter().cloned().collect())
    }
}
