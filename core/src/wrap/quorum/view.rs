//! What the stores show, taken together: what a majority of them has.

use std::collections::HashMap;

use super::Quorum;
use super::book::{Known, Stage};
use crate::{Engine as _, Key, Place, Result, Standing, Ticket, TicketId};

impl Quorum {
    /// The tickets that a majority serves. The number of another client's ticket is the highest that
    /// any store gave it, which is its token or, where a store answered late, above it.
    pub(super) async fn line_of_majority(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let poll = self.look_everywhere(key).await;
        let lines = poll.enough_answers(self.majority())?;
        let mut found: HashMap<TicketId, (usize, Ticket, Place)> = HashMap::new();
        for (ticket, place) in lines.into_iter().flatten() {
            let seen = || (0, Ticket { id: ticket.id.whole(), ..ticket.clone() }, *place);
            let (votes, shown, best) = found.entry(ticket.id).or_insert_with(seen);
            *votes += usize::from(place.standing == Standing::Holding);
            if place.life > best.life {
                // It was renewed last, so its note and its share are the newest.
                *shown = Ticket { id: ticket.id.whole(), ..ticket.clone() };
            }
            best.number = best.number.max(place.number);
            best.life = best.life.max(place.life);
            best.leaving |= place.leaving;
        }
        let mut line: Vec<(Ticket, Place)> = found
            .into_values()
            .filter(|(votes, ..)| *votes >= self.majority())
            .map(|(_, ticket, place)| (ticket, place))
            .collect();
        for (ticket, place) in &mut line {
            if let Some(Known { stage: Stage::Holding { number, .. }, .. }) = self.known(ticket.id)
            {
                place.number = number;
            }
        }
        line.sort_by_key(|(_, place)| place.number);
        Ok(line)
    }

    pub(super) async fn keys_of_majority(&self, prefix: &str) -> Result<Vec<Key>> {
        let poll = self
            .ask(
                |_| false,
                |_, engine| {
                    let prefix = prefix.to_owned();
                    async move { engine.keys(&prefix).await }
                },
            )
            .await;
        let mut keys: HashMap<&Key, usize> = HashMap::new();
        for key in poll.enough_answers(self.majority())?.into_iter().flatten() {
            *keys.entry(key).or_default() += 1;
        }
        let majority = self.majority();
        let mut keys: Vec<Key> = keys
            .into_iter()
            .filter(|(_, votes)| *votes >= majority)
            .map(|(key, _)| key.clone())
            .collect();
        keys.sort_unstable();
        Ok(keys)
    }
}
