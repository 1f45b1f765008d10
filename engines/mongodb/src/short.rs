//! Short steps: a join of a line that is empty, and a leave of the only holder, whose line goes to
//! the next ticket.
//!
//! The server parses a pipeline anew for each command, and that is most of a step's cost. A short
//! step states in its filter what it expects of the record. If the record is otherwise, nothing is
//! written, and the step for all lines follows.

use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, bson, cstr, doc};
use tenure_core::sync::Mutex;

use crate::batch;
use crate::command::RecordUpdate;
use crate::field_prefix::FieldPrefix;
use crate::fresh::Fresh;
use crate::line::{ALL, number_max, outcome, raw};
use crate::location::Location;
use crate::projection::Projections;
use crate::record_map::RecordMap;
use crate::request::{TicketRequest, Verb};
use crate::stages::{letter, now, reap};
use crate::verbs::seat;

/// The short steps for lines in records.
pub(crate) struct ShortSteps {
    join: ShortStep,
    leave: ShortStep,
}

/// A short step of one ticket.
struct ShortStep {
    /// What it expects of every record.
    expects: RawDocumentBuf,
    /// The stages after the first.
    stages: Vec<RawDocumentBuf>,
    fields: RawDocumentBuf,
}

impl ShortSteps {
    pub(crate) fn new(prefix: &FieldPrefix, answers: &Projections) -> Self {
        let step = |expects: &Document, stages: &[Document], said: &Document| ShortStep {
            expects: raw(expects),
            stages: stages.iter().map(|stage| raw(&prefix.stage(stage))).collect(),
            fields: answers.said(&prefix.expression(said)),
        };
        Self {
            join: step(&expected_by_join(), &join(), &answer_to_join()),
            leave: step(&expected_by_leave(), &[leave(), end()], &answer_to_leave()),
        }
    }

    /// Returns the short step for this request, if there is one. `is_empty` is whether the line was
    /// empty when this client saw it last.
    pub(crate) fn of<'a>(
        &'a self,
        location: &'a Location,
        request: &TicketRequest,
        inbox: &str,
        is_empty: bool,
    ) -> Option<RecordUpdate<'a>> {
        let (ticket, share) = (&request.ticket, request.ticket.share);
        let mut expects = RawDocumentBuf::new();
        let step = match request.verb {
            Verb::Join { .. } if is_empty && ticket.floor == 0 => &self.join,
            Verb::Leave { soon: false } if share.take() == share.of() => {
                expects.append(cstr!("of"), i64::from(share.of()));
                expects.append(cstr!("held.0.id"), ticket.id.to_string());
                expects.append(cstr!("held.0.inbox"), inbox);
                &self.leave
            }
            _ => return None,
        };
        for field in &step.expects {
            let (name, value) = field.expect("it was made of a document");
            expects.append(name, value);
        }
        let first = batch::first(location, &[request], inbox, &Fresh::new());
        let (stages, fields) = (vec![step.stages.as_slice()], step.fields.clone());
        Some(RecordUpdate { expects, ..RecordUpdate::new(&location.filter, first, stages, fields) })
    }

    /// Returns the stages of the join and of the leave.
    #[cfg(test)]
    pub(crate) fn stages(&self) -> [&[RawDocumentBuf]; 2] {
        [&self.join.stages, &self.leave.stages]
    }
}

/// Adds that these fields have numbers which a step of this version has written.
fn with_numbers(mut expects: Document, fields: &[&str]) -> Document {
    for field in fields {
        let limit = if *field == "at" { number_max() / 1000 } else { number_max() };
        let mut number = long();
        number.extend(doc! { "$gte": 0_i64, "$lt": limit });
        expects.insert(*field, number);
    }
    expects
}

/// A number as this version writes it. A query compares an array by its elements.
fn long() -> Document {
    doc! { "$type": "long", "$not": { "$type": "array" } }
}

/// An empty line that has given a number.
fn expected_by_join() -> Document {
    let last_clock = Bson::DateTime(DateTime::from_millis(number_max() / 1000));
    let expects = doc! {
        "held": { "$size": 0 }, "waiting": { "$size": 0 }, "made": { "$exists": false },
        "$expr": { "$lt": ["$$NOW", last_clock] },
    };
    with_numbers(expects, &["at", "last", "next_expiry", "of", "step"])
}

/// The ticket is served at once.
fn join() -> [Document; 3] {
    let number = bson!({ "$max": [
        { "$add": ["$@last", 1_i64] }, { "$multiply": [now(), 1000_i64] },
    ] });
    let asked = bson!({ "$arrayElemAt": ["$@ask.join", 0] });
    [
        doc! { "$set": { "@at": now(), "@step": next_step(), "@last": number } },
        doc! { "$set": {
            "@held": { "$let": { "vars": { "this": asked, "next": "$@last" }, "in": seat() } },
            "@next_expiry": { "$add": ["$@at", "$@ask.ttl"] },
            "@of": { "$arrayElemAt": ["$@ask.join.of", 0] },
            "@notices": "", "@newly_served": 0_i64, "@did": [outcome::SERVED],
        } },
        end(),
    ]
}

fn answer_to_join() -> Document {
    let place = doc! { "n": "$@last", "ends": "$@next_expiry", "told": false, "ahead": 0_i64 };
    doc! { "at": "$@at", "did": "$@did", "places": [place] }
}

/// A line in which no ticket's life has ended. It has one holder, and the next ticket takes the
/// whole line as well, if there is one.
fn expected_by_leave() -> Document {
    let first_end = bson!({ "$min": [{ "$min": "$held.ends" }, { "$min": "$waiting.ends" }] });
    let now = bson!({ "$max": ["$at", { "$toLong": "$$NOW" }] });
    let whole = bson!({ "$eq": [{ "$arrayElemAt": ["$waiting.take", 0] }, "$of"] });
    let expects = doc! {
        "held": { "$size": 1 }, "held.0.ends": long(), "waiting": { "$type": "array" },
        "$or": [
            { "waiting": { "$size": 0 } },
            { "waiting.0.ends": long(), "$expr": whole },
        ],
        "$expr": { "$gt": [first_end, now] },
    };
    with_numbers(expects, &["at", "last", "next_expiry", "step"])
}

/// The next ticket is served, and its letter is written.
fn leave() -> Document {
    let next = bson!({ "$slice": ["$@waiting", 1] });
    doc! { "$set": {
        "@held": &next,
        "@waiting": { "$slice": ["$@waiting", 1, ALL] },
        "@at": now(),
        "@step": next_step(),
        "@notices": { "$reduce": { "input": &next, "initialValue": "", "in": letter("S") } },
        "@newly_served": { "$size": next },
        "@did": [outcome::HOLDING],
    } }
}

fn answer_to_leave() -> Document {
    doc! { "at": "$@at", "did": "$@did", "notices": "$@notices", "newly_served": "$@newly_served" }
}

fn end() -> Document {
    doc! { "$set": { "@reap": reap(), "@ask": "$$REMOVE" } }
}

fn next_step() -> Bson {
    bson!({ "$add": ["$@step", 1_i64] })
}

/// The lines that were empty after a short step of this client. Another client may have joined
/// since.
#[derive(Default)]
pub(crate) struct EmptyLines(Mutex<RecordMap<()>>);

impl EmptyLines {
    /// Notes that the line in this record is empty now.
    pub(crate) fn insert(&self, record: &str) {
        let mut records = self.0.lock();
        records.make_room(|()| false);
        records.all.insert(record.to_owned(), ());
    }

    /// Forgets the line in this record. Returns whether it was empty.
    pub(crate) fn remove(&self, record: &str) -> bool {
        self.0.lock().all.remove(record).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record_map::RECORDS_FULL;

    #[test]
    fn few_empty_lines_are_remembered_and_each_is_used_once() {
        let lines = EmptyLines::default();
        for record in 0..RECORDS_FULL * 3 {
            lines.insert(&record.to_string());
        }
        assert!(lines.0.lock().all.len() <= RECORDS_FULL);
        let last = (RECORDS_FULL * 3 - 1).to_string();
        assert!(lines.remove(&last) && !lines.remove(&last));
    }
}
