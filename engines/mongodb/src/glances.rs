//! Glances: a read of the records of watched tickets every 0.5 to 1 s, which finds what no letter
//! reports.
//!
//! A holder that listens is notified when its record is deleted or changed by hand. With a change
//! stream the server would work for each change of the collection, once for each client that
//! listens. The cost of this read does not depend on the number of changes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use tenure_core::sync::Mutex;
use tenure_core::{Result, TicketId, TicketState, jitter};
use tenure_kit::subscriptions::Subscriptions;
use tokio::time::sleep;

use crate::call::Calls;
use crate::location::Location;

/// Longest time between two glances. With jitter it is at least half of this.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum records of one read.
const RECORDS_AT_ONCE: usize = 256;

/// The tickets of a store that are watched.
pub(crate) struct Glances(Arc<Watched>);

struct Watched {
    calls: Arc<Calls>,
    mail: Arc<Subscriptions>,
    /// Returns the name of a record from its `_id`.
    name: fn(&Bson) -> String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The tickets that were seen holding, by their lines.
    holding: HashMap<LinePlace, Line>,
    /// The tickets that were seen waiting, by their lines.
    waiting: HashMap<LinePlace, Line>,
    is_running: bool,
}

impl State {
    fn seen(&mut self, seen: TicketState) -> &mut HashMap<LinePlace, Line> {
        match seen {
            TicketState::Holding => &mut self.holding,
            TicketState::Waiting => &mut self.waiting,
        }
    }
}

/// Where a line is: a document may have lines in several places.
#[derive(Clone, PartialEq, Eq, Hash)]
struct LinePlace {
    record: String,
    /// The array in the record that has the seats of the line's tickets.
    array: String,
}

struct Line {
    /// The query for the record.
    filter: Document,
    tickets: Vec<Watching>,
}

struct Watching {
    id: TicketId,
    /// Whether the last glance did not find it.
    was_missed: bool,
}

/// A watched ticket. Dropping this ends the watch.
pub(crate) struct Glancing {
    watched: Arc<Watched>,
    seen: TicketState,
    line: LinePlace,
    id: TicketId,
}

impl Drop for Glancing {
    fn drop(&mut self) {
        let mut state = self.watched.state();
        let lines = state.seen(self.seen);
        let Some(line) = lines.get_mut(&self.line) else { return };
        if let Some(at) = line.tickets.iter().position(|ticket| ticket.id == self.id) {
            line.tickets.remove(at);
        }
        if line.tickets.is_empty() {
            lines.remove(&self.line);
        }
    }
}

impl Glances {
    pub(crate) fn new(
        calls: Arc<Calls>,
        mail: Arc<Subscriptions>,
        name: fn(&Bson) -> String,
    ) -> Self {
        Self(Arc::new(Watched { calls, mail, name, state: Mutex::default() }))
    }

    /// Watches a ticket that was seen in this state. If a glance does not find it, its owner is
    /// notified.
    pub(crate) fn at(&self, spot: &Location, id: TicketId, seen: TicketState) -> Glancing {
        let array = match seen {
            TicketState::Holding => "held",
            TicketState::Waiting => "waiting",
        };
        let (record, array) = (spot.record.clone(), format!("{}{array}", spot.kit.place));
        let line = LinePlace { record, array };
        let mut state = self.0.state();
        let entry = state.seen(seen).entry(line.clone()).or_insert_with(|| {
            let filter = Document::try_from(&spot.filter).expect("it was made of a document");
            Line { filter, tickets: Vec::new() }
        });
        entry.tickets.push(Watching { id, was_missed: false });
        if !state.is_running {
            state.is_running = true;
            self.0.calls.home.spawn(glance(self.0.clone()));
        }
        Glancing { watched: self.0.clone(), seen, line, id }
    }
}

/// Runs glances while tickets are watched.
async fn glance(watched: Arc<Watched>) {
    while watched.goes_on() {
        sleep(jitter(PAUSE, getrandom::u64().unwrap_or(0))).await;
        for seen in [TicketState::Holding, TicketState::Waiting] {
            let mut asked = watched.asked(seen);
            while !asked.is_empty() {
                let some = take(&mut asked);
                // A failed read needs no retry: the next glance or the next renewal finds the same.
                if let Err(error) = watched.look(seen, &some).await {
                    tracing::debug!(%error, "watched records are not read");
                }
            }
        }
    }
}

/// The query that finds a record as long as nothing has happened to the watched tickets of a line
/// in it.
struct Asked {
    line: LinePlace,
    query: Document,
}

/// Takes the queries of the next read. The answer names records and not lines, so a read asks for
/// one line of each record.
fn take(asked: &mut Vec<Asked>) -> Vec<Asked> {
    let mut records = HashSet::new();
    let (now, later) = asked.drain(..).partition(|one| {
        records.len() < RECORDS_AT_ONCE && records.insert(one.line.record.clone())
    });
    *asked = later;
    now
}

/// Returns the condition that these tickets stand in the array of a line, and that none of them was
/// asked to leave.
fn condition(array: &str, tickets: &[Watching], seen: TicketState) -> Document {
    let ids: Vec<Bson> = tickets.iter().map(|ticket| ticket.id.to_string().into()).collect();
    if seen == TicketState::Waiting {
        // A waiting ticket may have been served just now, with its letter in flight.
        return doc! { array: { "$elemMatch": { "id": { "$in": ids }, "told": { "$ne": true } } } };
    }
    let told = doc! { "id": { "$in": ids.clone() }, "told": true };
    doc! { format!("{array}.id"): { "$all": ids }, array: { "$not": { "$elemMatch": told } } }
}

impl Watched {
    /// Returns whether tickets are watched. If none is, the task ends.
    fn goes_on(&self) -> bool {
        let mut state = self.state();
        state.is_running = !state.holding.is_empty() || !state.waiting.is_empty();
        state.is_running
    }

    fn asked(&self, seen: TicketState) -> Vec<Asked> {
        let mut state = self.state();
        let asked = state.seen(seen).iter().map(|(place, line)| {
            let mut query = line.filter.clone();
            query.extend(condition(&place.array, &line.tickets, seen));
            Asked { line: place.clone(), query }
        });
        asked.collect()
    }

    async fn look(&self, seen: TicketState, asked: &[Asked]) -> Result<()> {
        let queries: Vec<Bson> = asked.iter().map(|one| one.query.clone().into()).collect();
        let found = self.calls.ids(&doc! { "$or": queries }).await?;
        let found: HashSet<String> = found.iter().map(self.name).collect();
        let mut state = self.state();
        for one in asked {
            let Some(line) = state.seen(seen).get_mut(&one.line) else { continue };
            let is_missed = !found.contains(&one.line.record);
            for ticket in &mut line.tickets {
                // A letter to a waiting ticket may be in flight.
                if is_missed && (ticket.was_missed || seen == TicketState::Holding) {
                    self.mail.look(ticket.id);
                }
                ticket.was_missed = is_missed;
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
