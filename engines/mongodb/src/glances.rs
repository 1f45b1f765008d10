//! Glances: a read of the records of watched tickets every 0.5 to 1 s, which finds what no letter
//! reports.
//!
//! A holder that listens is notified when its record is deleted or changed by hand. With a change
//! stream the server would work for each change of the collection, once for each client that
//! listens. The cost of this read does not depend on the number of changes.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use tenure_core::sync::Mutex;
use tenure_core::{Result, TicketId, TicketState, jitter};
use tenure_kit::subscriptions::Subscriptions;
use tokio::time::sleep;

use crate::command::CommandSender;
use crate::location::Location;

/// Longest time between two glances. With jitter it is at least half of this.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum records of one read.
const RECORDS_AT_ONCE: usize = 256;

/// Reads the records of the watched tickets of a store.
pub(crate) struct Glances(Arc<GlanceState>);

struct GlanceState {
    commands: Arc<CommandSender>,
    mail: Arc<Subscriptions>,
    /// Returns the name of a record from its `_id`.
    name: fn(&Bson) -> String,
    watched: Mutex<WatchedTickets>,
}

#[derive(Default)]
struct WatchedTickets {
    /// The watches, by their numbers.
    all: HashMap<u64, WatchedTicket>,
    next: u64,
    is_running: bool,
}

#[derive(Clone)]
struct WatchedTicket {
    id: TicketId,
    state: TicketState,
    line: LinePlace,
    /// The query for the record.
    filter: Document,
    /// Whether the last glance did not find it.
    was_missed: bool,
}

/// Where a line is: a document may have lines in several places.
#[derive(Clone, PartialEq, Eq, Hash)]
struct LinePlace {
    record: String,
    /// The array in the record that has the seats of the line's tickets.
    array: String,
}

/// A watched ticket. Dropping this ends the watch.
pub(crate) struct Glancing {
    state: Arc<GlanceState>,
    number: u64,
}

impl Drop for Glancing {
    fn drop(&mut self) {
        self.state.watched.lock().all.remove(&self.number);
    }
}

impl Glances {
    pub(crate) fn new(
        commands: Arc<CommandSender>,
        mail: Arc<Subscriptions>,
        name: fn(&Bson) -> String,
    ) -> Self {
        Self(Arc::new(GlanceState { commands, mail, name, watched: Mutex::default() }))
    }

    /// Watches a ticket that was seen in this state. If a glance does not find it, its owner is
    /// notified.
    pub(crate) fn at(&self, location: &Location, id: TicketId, state: TicketState) -> Glancing {
        let array = match state {
            TicketState::Holding => "held",
            TicketState::Waiting => "waiting",
        };
        let array = format!("{}{array}", location.pipelines.place);
        let line = LinePlace { record: location.record.clone(), array };
        let filter = Document::try_from(&location.filter).expect("it was made of a document");
        let mut watched = self.0.watched.lock();
        let number = watched.next;
        watched.next += 1;
        watched.all.insert(number, WatchedTicket { id, state, line, filter, was_missed: false });
        if !watched.is_running {
            watched.is_running = true;
            self.0.commands.runtime.spawn(glance(self.0.clone()));
        }
        Glancing { state: self.0.clone(), number }
    }
}

/// Runs glances while tickets are watched.
async fn glance(state: Arc<GlanceState>) {
    while state.goes_on() {
        sleep(jitter(PAUSE, getrandom::u64().unwrap_or(0))).await;
        let mut lines = state.lines();
        while !lines.is_empty() {
            // A failed read needs no retry: the next glance or the next renewal finds the same.
            if let Err(error) = state.look(&take(&mut lines)).await {
                tracing::debug!(%error, "watched records are not read");
            }
        }
    }
}

/// The watched tickets of one line that were seen in one state, by the numbers of their watches.
type WatchedLine = Vec<(u64, WatchedTicket)>;

/// Takes the lines of the next read. The answer names records and not lines, so a read asks for one
/// line of each record.
fn take(lines: &mut Vec<WatchedLine>) -> Vec<WatchedLine> {
    let mut records = HashSet::new();
    let (now, later) = lines.drain(..).partition(|line| {
        records.len() < RECORDS_AT_ONCE && records.insert(line[0].1.line.record.clone())
    });
    *lines = later;
    now
}

/// Returns the query that finds a record as long as nothing has happened to these tickets.
fn query(tickets: &WatchedLine) -> Document {
    let (_, first) = &tickets[0];
    let ids: Vec<String> = tickets.iter().map(|(_, ticket)| ticket.id.to_string()).collect();
    let (mut query, array) = (first.filter.clone(), first.line.array.as_str());
    query.extend(match first.state {
        // A waiting ticket may have been served just now, with its letter in flight.
        TicketState::Waiting => {
            doc! { array: { "$elemMatch": { "id": { "$in": ids }, "told": { "$ne": true } } } }
        }
        TicketState::Holding => {
            let told = doc! { "id": { "$in": &ids }, "told": true };
            doc! { format!("{array}.id"): { "$all": ids }, array: { "$not": { "$elemMatch": told } } }
        }
    });
    query
}

impl GlanceState {
    /// Returns whether tickets are watched. If none is, the task ends.
    fn goes_on(&self) -> bool {
        let mut watched = self.watched.lock();
        watched.is_running = !watched.all.is_empty();
        watched.is_running
    }

    /// Returns the watched tickets by their lines.
    fn lines(&self) -> Vec<WatchedLine> {
        let mut lines: HashMap<LinePlace, WatchedLine> = HashMap::new();
        for (number, ticket) in &self.watched.lock().all {
            lines.entry(ticket.line.clone()).or_default().push((*number, ticket.clone()));
        }
        lines.into_values().collect()
    }

    async fn look(&self, lines: &[WatchedLine]) -> Result<()> {
        let queries: Vec<Document> = lines.iter().map(query).collect();
        let found = self.commands.ids(&doc! { "$or": queries }).await?;
        let found: HashSet<String> = found.iter().map(self.name).collect();
        let mut watched = self.watched.lock();
        for (number, seen) in lines.iter().flatten() {
            let Some(ticket) = watched.all.get_mut(number) else { continue };
            let was_missed = ticket.was_missed;
            ticket.was_missed = !found.contains(&seen.line.record);
            // A letter to a waiting ticket may be in flight.
            if ticket.was_missed && (was_missed || seen.state == TicketState::Holding) {
                self.mail.look(seen.id);
            }
        }
        Ok(())
    }
}
