//! Glances: a look now and then at the records of the tickets that are watched, which finds out what no letter tells.
//!
//! A holder must hear that its record was deleted or changed by hand. A change stream for that would make the server
//! work for each change of the collection, and once for each client that listens. A read of the watched records costs
//! the same however much happens there.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mongodb::bson::{Bson, Document, bson, doc};
use tenure_core::{Result, Standing, TicketId, uneven};
use tenure_kit::mailbox::Mailbox;
use tokio::time::sleep;

use crate::call::Calls;
use crate::documents::text;
use crate::spot::Spot;

/// The time between two glances.
const PAUSE: Duration = Duration::from_secs(1);
/// Records of one read at most.
const RECORDS_AT_ONCE: usize = 256;
/// Tickets of one record that are looked for at most: those that were watched first.
const TICKETS_AT_ONCE: usize = 8;

/// The tickets of a store that are watched.
pub(crate) struct Glances(Arc<Watched>);

struct Watched {
    calls: Arc<Calls>,
    mail: Arc<Mailbox>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    records: HashMap<String, Record>,
    is_running: bool,
}

struct Record {
    /// What finds the record.
    filter: Document,
    tickets: Vec<Seat>,
}

/// Where a ticket was seen last.
struct Seat {
    id: TicketId,
    query: Document,
}

/// A ticket is watched until this is dropped.
pub(crate) struct Glancing {
    watched: Arc<Watched>,
    record: String,
    id: TicketId,
}

impl Drop for Glancing {
    fn drop(&mut self) {
        let mut state = self.watched.state();
        let Some(record) = state.records.get_mut(&self.record) else { return };
        if let Some(at) = record.tickets.iter().position(|seat| seat.id == self.id) {
            record.tickets.remove(at);
        }
        if record.tickets.is_empty() {
            state.records.remove(&self.record);
        }
    }
}

impl Glances {
    pub(crate) fn new(calls: Arc<Calls>, mail: Arc<Mailbox>) -> Self {
        Self(Arc::new(Watched { calls, mail, state: Mutex::default() }))
    }

    /// Looks for a ticket that was seen there, now and then. If it is not there any more, its owner looks.
    pub(crate) fn at(&self, spot: &Spot, id: TicketId, seen: Standing) -> Glancing {
        let array = match seen {
            Standing::Holding => "held",
            Standing::Waiting => "waiting",
        };
        let seat = doc! { "$elemMatch": { "id": id.to_string(), "told": { "$ne": true } } };
        let query = doc! { format!("{}{array}", spot.kit.place): seat };
        let record = match spot.kit.place.as_str() {
            "" => text::comparable(&Bson::String(spot.record.clone())),
            _ => spot.record.clone(),
        };
        let mut state = self.0.state();
        let entry = state.records.entry(record.clone()).or_insert_with(|| {
            let filter = Document::try_from(&spot.filter).expect("it was made of a document");
            Record { filter, tickets: Vec::new() }
        });
        entry.tickets.push(Seat { id, query });
        if !state.is_running {
            state.is_running = true;
            self.0.calls.home.spawn(glance(self.0.clone()));
        }
        Glancing { watched: self.0.clone(), record, id }
    }
}

/// Looks for as long as tickets are watched.
async fn glance(watched: Arc<Watched>) {
    loop {
        sleep(uneven(PAUSE, getrandom::u64().unwrap_or(0))).await;
        let Some(asked) = watched.asked() else { return };
        for some in asked.chunks(RECORDS_AT_ONCE) {
            // What is not found out now is found out by the next glance, or by the next sign of life.
            if let Err(error) = watched.look(some).await {
                tracing::debug!(%error, "watched records are not read");
            }
        }
    }
}

/// A record, the query that finds it as it was seen last, and the tickets that were.
struct Asked {
    record: String,
    query: Bson,
    tickets: Vec<TicketId>,
}

impl Watched {
    /// What is looked for. If nothing is, the task is over.
    fn asked(&self) -> Option<Vec<Asked>> {
        let mut state = self.state();
        if state.records.is_empty() {
            state.is_running = false;
            return None;
        }
        let asked = state.records.iter().map(|(name, record)| {
            let seats = record.tickets.iter().take(TICKETS_AT_ONCE);
            let all: Vec<Document> = [record.filter.clone()]
                .into_iter()
                .chain(seats.map(|seat| seat.query.clone()))
                .collect();
            let tickets = record.tickets.iter().map(|seat| seat.id).collect();
            Asked { record: name.clone(), query: bson!({ "$and": all }), tickets }
        });
        Some(asked.collect())
    }

    async fn look(&self, asked: &[Asked]) -> Result<()> {
        let queries: Vec<Bson> = asked.iter().map(|one| one.query.clone()).collect();
        let found = self.calls.ids(&doc! { "$or": queries }).await?;
        let found: HashSet<String> = found.iter().map(text::comparable).collect();
        for one in asked.iter().filter(|one| !found.contains(&one.record)) {
            for id in &one.tickets {
                self.mail.look(*id);
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
