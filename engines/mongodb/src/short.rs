//! Short steps: a join of an empty line, and a leave of the only holder. After that leave the line
//! is empty, or the next ticket holds all of it.
//!
//! The server parses a pipeline anew for each command, and that is most of a step's cost. A short
//! step states in its filter what it expects of the record. If the record differs, nothing is
//! written, and the full step follows.

use mongodb::bson::{Bson, Document, RawDocumentBuf, bson, cstr, doc, rawdoc};
use tenure_core::sync::Mutex;

use crate::answer::whole;
use crate::batch;
use crate::command::RecordUpdate;
use crate::field_prefix::FieldPrefix;
use crate::fresh::Fresh;
use crate::line::{ALL, append_all, number_max, outcome, raw};
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
    /// The condition on every record.
    expects: RawDocumentBuf,
    /// The stages after the first.
    stages: Vec<RawDocumentBuf>,
    fields: RawDocumentBuf,
}

impl ShortSteps {
    pub(crate) fn new(prefix: &FieldPrefix, answers: &Projections) -> Self {
        let step = |expects: &Document, stages: &[Document], said: &Document| ShortStep {
            expects: raw(&prefix.stage(expects)),
            stages: stages.iter().map(|stage| raw(&prefix.stage(stage))).collect(),
            fields: answers.said(&prefix.expression(said)),
        };
        Self {
            join: step(&expected_by_join(), &join(), &answer_to_join()),
            leave: step(&expected_by_leave(), &[leave(), end()], &answer_to_leave()),
        }
    }

    /// Returns the short step for this request, if there is one. `seen` has the step and the last
    /// number of the line when this client left it empty.
    pub(crate) fn of<'a>(
        &'a self,
        location: &'a Location,
        request: &TicketRequest,
        inbox: &str,
        seen: Option<EmptyLine>,
    ) -> Option<RecordUpdate<'a>> {
        let (ticket, share) = (&request.ticket, request.ticket.share);
        let mut expects = RawDocumentBuf::new();
        let step = match (request.verb, seen) {
            (Verb::Join { .. }, Some(seen)) if ticket.floor == 0 && seen.last < number_max() => {
                expects.append(cstr!("step"), seen.step);
                expects.append(cstr!("last"), seen.last);
                &self.join
            }
            (Verb::Leave { soon: false }, _) if share.take() == share.of() => {
                expects.append(
                    cstr!("of"),
                    rawdoc! { "$eq": i64::from(share.of()), "$not": { "$type": "array" } },
                );
                expects.append(cstr!("held.0.id"), ticket.id.to_string());
                expects.append(cstr!("held.0.inbox"), inbox);
                &self.leave
            }
            _ => return None,
        };
        append_all(&mut expects, &step.expects);
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

/// A number as this version writes it. A query also matches an array by its elements, so arrays are
/// excluded.
fn number() -> Document {
    number_up_to(number_max())
}

fn number_up_to(most: i64) -> Document {
    doc! { "$type": "long", "$gte": 0_i64, "$lte": most, "$not": { "$type": "array" } }
}

/// An empty line, and a clock that leaves numbers. The caller adds its step and its last number.
fn expected_by_join() -> Document {
    let last_clock = number_max() / 1000;
    doc! {
        "@held": { "$size": 0 }, "@waiting": { "$size": 0 },
        "@at": number_up_to(last_clock), "@next_expiry": number(), "@of": number(),
        "$expr": { "$lte": [{ "$toLong": "$$NOW" }, last_clock] },
    }
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

/// A line with one holder, in which every life ends later than now. If tickets wait, the first
/// takes the whole line, so none is served beside it.
fn expected_by_leave() -> Document {
    let first_end = bson!({ "$min": [{ "$min": "$@held.ends" }, { "$min": "$@waiting.ends" }] });
    let takes_all = bson!({ "$eq": [{ "$arrayElemAt": ["$@waiting.take", 0] }, "$@of"] });
    doc! {
        "@held": { "$size": 1 },
        "$or": [
            { "@waiting": { "$size": 0 } },
            { "@waiting.0.ends": number(), "@waiting.0.take": number(), "$expr": takes_all },
        ],
        "$expr": { "$gt": [first_end, now()] },
        "@at": number(), "@last": number(), "@next_expiry": number(), "@step": number(),
    }
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
    doc! {
        "at": "$@at", "did": "$@did", "notices": "$@notices",
        "newly_served": "$@newly_served", "step": "$@step", "last": "$@last",
    }
}

fn end() -> Document {
    doc! { "$set": { "@reap": reap(), "@ask": "$$REMOVE" } }
}

fn next_step() -> Bson {
    bson!({ "$add": ["$@step", 1_i64] })
}

/// A line that was empty after a short step of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EmptyLine {
    step: i64,
    last: i64,
}

impl EmptyLine {
    /// Reads it from the answer to a short leave, unless a ticket was served next. The answer to a
    /// short join has no `newly_served`.
    pub(crate) fn of(said: &Document) -> Option<Self> {
        if whole(said, "newly_served")? != 0 {
            return None;
        }
        Some(Self { step: whole(said, "step")?, last: whole(said, "last")? })
    }
}

/// The lines that this client left empty. Other clients may have joined since.
#[derive(Default)]
pub(crate) struct EmptyLines(Mutex<RecordMap<EmptyLine>>);

impl EmptyLines {
    pub(crate) fn insert(&self, record: &str, line: EmptyLine) {
        let mut records = self.0.lock();
        records.make_room(|_| false);
        records.all.insert(record.to_owned(), line);
    }

    pub(crate) fn remove(&self, record: &str) -> Option<EmptyLine> {
        self.0.lock().all.remove(record)
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
            lines.insert(&record.to_string(), EmptyLine { step: 1, last: 1 });
        }
        assert!(lines.0.lock().all.len() <= RECORDS_FULL);
        let last = (RECORDS_FULL * 3 - 1).to_string();
        assert!(lines.remove(&last).is_some() && lines.remove(&last).is_none());
    }
}
