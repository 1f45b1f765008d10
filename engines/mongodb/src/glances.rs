//! Glances: a look now and then at the records of the tickets that are watched, which finds out what no letter tells.
//!
//! A holder must hear that its record was deleted or changed by hand. A change stream for that would make the server
//! work for each change of the collection, and once for each client that listens. A read of the watched records costs
//! the same however much happens there.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mongodb::bson::{Bson, Document, bson, doc};
use tenure_core::{Result, TicketId, TicketState, jitter};
use tenure_kit::subscriptions::Subscriptions;
use tokio::time::sleep;

use crate::call::Calls;
use crate::documents::text;
use crate::spot::Spot;

/// The longest time between two glances, and with jitter half of it at least.
const PAUSE: Duration = Duration::from_secs(1);
/// Records of one read at most.
const RECORDS_AT_ONCE: usize = 256;
/// Tickets of one record that are looked for at most: those that were watched first.
const TICKETS_AT_ONCE: usize = 8;

/// The tickets of a store that are watched.
pub(crate) struct Glances(Arc<Watched>);

struct Watched {
    calls: Arc<Calls>,
    mail: Arc<Subscriptions>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The tickets that were seen holding, by their records.
    holding: HashMap<String, Record>,
    /// The tickets that were seen waiting, by their records.
    waiting: HashMap<String, Record>,
    is_running: bool,
}

impl State {
    fn seen(&mut self, seen: TicketState) -> &mut HashMap<String, Record> {
        match seen {
            TicketState::Holding => &mut self.holding,
            TicketState::Waiting => &mut self.waiting,
        }
    }
}

struct Record {
    /// What finds the record.
    filter: Document,
    /// The array that has the seats of its tickets.
    array: String,
    tickets: Vec<Watching>,
}

struct Watching {
    id: TicketId,
    /// The last glance did not find it.
    was_missed: bool,
}

/// A ticket is watched until this is dropped.
pub(crate) struct Glancing {
    watched: Arc<Watched>,
    seen: TicketState,
    record: String,
    id: TicketId,
}

impl Drop for Glancing {
    fn drop(&mut self) {
        let mut state = self.watched.state();
        let records = state.seen(self.seen);
        let Some(record) = records.get_mut(&self.record) else { return };
        if let Some(at) = record.tickets.iter().position(|ticket| ticket.id == self.id) {
            record.tickets.remove(at);
        }
        if record.tickets.is_empty() {
            records.remove(&self.record);
        }
    }
}

impl Glances {
    pub(crate) fn new(calls: Arc<Calls>, mail: Arc<Subscriptions>) -> Self {
        Self(Arc::new(Watched { calls, mail, state: Mutex::default() }))
    }

    /// Looks now and then for a ticket that was seen there. If it is not there any more, its owner looks.
    pub(crate) fn at(&self, spot: &Spot, id: TicketId, seen: TicketState) -> Glancing {
        let array = match seen {
            TicketState::Holding => "held",
            TicketState::Waiting => "waiting",
        };
        let record = match spot.kit.place.as_str() {
            "" => text::comparable(&Bson::String(spot.record.clone())),
            _ => spot.record.clone(),
        };
        let mut state = self.0.state();
        let entry = state.seen(seen).entry(record.clone()).or_insert_with(|| {
            let filter = Document::try_from(&spot.filter).expect("it was made of a document");
            Record { filter, array: format!("{}{array}", spot.kit.place), tickets: Vec::new() }
        });
        entry.tickets.push(Watching { id, was_missed: false });
        if !state.is_running {
            state.is_running = true;
            self.0.calls.home.spawn(glance(self.0.clone()));
        }
        Glancing { watched: self.0.clone(), seen, record, id }
    }
}

/// Looks for as long as tickets are watched.
async fn glance(watched: Arc<Watched>) {
    while watched.goes_on() {
        sleep(jitter(PAUSE, getrandom::u64().unwrap_or(0))).await;
        for seen in [TicketState::Holding, TicketState::Waiting] {
            for some in watched.asked(seen).chunks(RECORDS_AT_ONCE) {
                // What is not found out now is found out by the next glance, or by the next sign of life.
                if let Err(error) = watched.look(seen, some).await {
                    tracing::debug!(%error, "watched records are not read");
                }
            }
        }
    }
}

/// The query that finds a record as long as nothing has happened to its tickets.
struct Asked {
    record: String,
    query: Document,
}

impl Watched {
    /// Whether tickets are watched. If none is, the task is over.
    fn goes_on(&self) -> bool {
        let mut state = self.state();
        state.is_running = !state.holding.is_empty() || !state.waiting.is_empty();
        state.is_running
    }

    fn asked(&self, seen: TicketState) -> Vec<Asked> {
        let mut state = self.state();
        let asked = state.seen(seen).iter().map(|(name, record)| {
            let seat = |ticket: &Watching| {
                let seat = doc! { "id": ticket.id.to_string(), "told": { "$ne": true } };
                bson!({ &record.array: { "$elemMatch": seat } })
            };
            let seats: Vec<Bson> = record.tickets.iter().take(TICKETS_AT_ONCE).map(seat).collect();
            let mut query = record.filter.clone();
            // One of the waiting tickets may be served just now, and its letter be on its way.
            query.insert(if seen == TicketState::Waiting { "$or" } else { "$and" }, seats);
            Asked { record: name.clone(), query }
        });
        asked.collect()
    }

    async fn look(&self, seen: TicketState, asked: &[Asked]) -> Result<()> {
        let queries: Vec<Bson> = asked.iter().map(|one| one.query.clone().into()).collect();
        let found = self.calls.ids(&doc! { "$or": queries }).await?;
        let found: HashSet<String> = found.iter().map(text::comparable).collect();
        let mut state = self.state();
        for one in asked {
            let Some(record) = state.seen(seen).get_mut(&one.record) else { continue };
            let is_missed = !found.contains(&one.record);
            for ticket in &mut record.tickets {
                // A letter to a ticket that waits may be on its way.
                if is_missed && (ticket.was_missed || seen == TicketState::Holding) {
                    self.mail.look(ticket.id);
                }
                ticket.was_missed = is_missed;
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
