//! A mirror: copies of records, kept up to date by a change stream, and so the events of each line,
//! step by step.

use std::collections::HashMap;

use mongodb::bson::{Bson, Document, doc};
use tenure_core::event::{Event, EventKind};
use tenure_core::line::changes;
use tenure_core::{Key, Place, Ticket};

use crate::answer::{self, whole};

/// Fields of a record that an onlooker needs.
pub(crate) const FIELDS: [&str; 8] =
    ["key", "of", "held", "waiting", "last", "step", "at", "notices"];

/// Fields of a record that a change carries only if it changes them.
pub(crate) const NAME: [&str; 2] = ["key", "of"];

/// Minimum number of records at which those with empty lines are removed. Their names are read
/// again when they are used.
const RECORDS_FULL: usize = 4096;

/// Records by their ids: at least those in whose lines a ticket may stand.
#[derive(Default)]
pub(crate) struct Mirror {
    records: HashMap<String, Document>,
    /// Number of records above which those with empty lines are removed.
    full: usize,
}

impl Mirror {
    /// Creates a mirror of these records, as they are now.
    pub(crate) fn of(records: Vec<Document>) -> Self {
        let id = |record: &Document| record.get_str("_id").ok().map(str::to_owned);
        let by_id = records.into_iter().filter_map(|record| Some((id(&record)?, record)));
        Self { records: by_id.collect(), full: RECORDS_FULL }
    }

    /// Returns the id of an updated record that is not in the mirror. Its line was empty before.
    pub(crate) fn stranger(&self, event: &Document) -> Option<String> {
        let id = event.get_document("documentKey").ok()?.get_str("_id").ok()?;
        let is_update = event.get_str("operationType").is_ok_and(|what| what == "update");
        (is_update && !self.records.contains_key(id)).then(|| id.to_owned())
    }

    /// Adds these records, whose lines were empty, by their names.
    pub(crate) fn learn(&mut self, names: Vec<Document>) {
        for mut name in names {
            name.extend(doc! { "held": [], "waiting": [], "at": 0_i64 });
            if let Ok(id) = name.get_str("_id").map(str::to_owned) {
                self.records.entry(id).or_insert(name);
            }
        }
    }

    /// Applies an event of a change stream, and returns what happened to the line.
    pub(crate) fn apply(&mut self, event: &Document) -> Vec<Event> {
        let id = event.get_document("documentKey").and_then(|key| key.get_str("_id"));
        let Ok(id) = id else { return Vec::new() };
        let before = self.records.get(id);
        let now = match event.get_str("operationType").unwrap_or_default() {
            "insert" | "replace" => event.get_document("fullDocument").ok().cloned(),
            "update" => before.cloned().and_then(|mut record| {
                update(&mut record, event.get_document("updateDescription").ok()?);
                Some(record)
            }),
            _ => None,
        };
        if let (Some(before), Some(now)) = (before, &now)
            && age(now) <= age(before)
        {
            // The record was read after this change.
            return Vec::new();
        }
        let events = events(before, now.as_ref());
        match now {
            Some(now) => drop(self.records.insert(id.to_owned(), now)),
            None => drop(self.records.remove(id)),
        }
        if self.records.len() > self.full {
            self.records.retain(|_, record| {
                ["held", "waiting"]
                    .iter()
                    .any(|array| record.get_array(array).is_ok_and(|tickets| !tickets.is_empty()))
            });
            self.full = RECORDS_FULL.max(self.records.len() * 2);
        }
        events
    }
}

/// Returns the age of a record, by which versions are compared: a step makes it older, and a record
/// that was inserted anew has higher numbers.
fn age(record: &Document) -> (i64, i64) {
    (whole(record, "last").unwrap_or(0), whole(record, "step").unwrap_or(0))
}

/// Returns the events from one state of a line to the next. The line of a deleted record is empty.
fn events(before: Option<&Document>, now: Option<&Document>) -> Vec<Event> {
    let some = now.or(before);
    let key = some.and_then(|record| Key::new(record.get_str("key").ok()?).ok());
    let (Some(key), Some(some)) = (key, some) else { return Vec::new() };
    let line = |record: Option<&Document>| {
        record.and_then(|record| answer::line(record, &key)).unwrap_or_default()
    };
    let at = whole(some, "at").and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
    let ends = before.map(ends).unwrap_or_default();
    let gone = |ticket: &Ticket, _: &Place| match now {
        Some(now) => fate(now, ticket, ends.get(&ticket.id.to_string()).copied()),
        None => EventKind::Broken,
    };
    changes(&line(before), &line(now), at.saturating_mul(1000), gone)
}

/// Returns why a ticket is not in its line any more. If it was asked to leave, a letter says so.
fn fate(now: &Document, ticket: &Ticket, ends: Option<i64>) -> EventKind {
    let has_ended = ends.is_some_and(|ends| whole(now, "at").is_some_and(|at| ends <= at));
    let letter = format!("{}B", ticket.id);
    match now.get_str("notices") {
        _ if has_ended => EventKind::Expired,
        Ok(notices) if notices.contains(&letter) => EventKind::Broken,
        _ => EventKind::Left,
    }
}

/// Returns the end of each ticket's life, by the record.
fn ends(record: &Document) -> HashMap<String, i64> {
    let array = |name| record.get_array(name).map_or(&[][..], Vec::as_slice);
    let seats = array("held").iter().chain(array("waiting")).filter_map(Bson::as_document);
    seats
        .filter_map(|seat| Some((seat.get_str("id").ok()?.to_owned(), whole(seat, "ends")?)))
        .collect()
}

/// Changes a record as an update did: removed fields, shortened arrays, and set fields, each at its
/// path.
fn update(record: &mut Document, description: &Document) {
    for gone in description.get_array("removedFields").into_iter().flatten() {
        if let Some(path) = gone.as_str() {
            record.remove(path);
        }
    }
    for shorter in description.get_array("truncatedArrays").into_iter().flatten() {
        let Some(shorter) = shorter.as_document() else { continue };
        let Ok(path) = shorter.get_str("field") else { continue };
        let size = whole(shorter, "newSize").and_then(|size| usize::try_from(size).ok());
        if let (Some(Bson::Array(array)), Some(size)) = (at(record, path), size) {
            array.truncate(size);
        }
    }
    if let Ok(fields) = description.get_document("updatedFields") {
        for (path, value) in fields {
            set(record, path, value.clone());
        }
    }
}

/// Returns the value at a path, in which a number is an index of an array.
fn at<'a>(record: &'a mut Document, path: &str) -> Option<&'a mut Bson> {
    let mut parts = path.split('.');
    let mut here = record.get_mut(parts.next()?)?;
    for part in parts {
        here = match here {
            Bson::Document(document) => document.get_mut(part)?,
            Bson::Array(array) => array.get_mut(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(here)
}

fn set(record: &mut Document, path: &str, value: Bson) {
    let Some((before, last)) = path.rsplit_once('.') else {
        record.insert(path, value);
        return;
    };
    match at(record, before) {
        Some(Bson::Document(document)) => drop(document.insert(last, value)),
        Some(Bson::Array(array)) => match last.parse::<usize>() {
            Ok(place) if place < array.len() => array[place] = value,
            Ok(place) if place == array.len() => array.push(value),
            _ => {}
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_followed_into_arrays() {
        let mut record = doc! { "a": [{ "x": 1 }, { "x": 2 }, { "x": 3 }], "gone": 1, "step": 1 };
        let description = doc! {
            "updatedFields": { "a.0.x": 7, "a.2": { "x": 9 }, "step": 2 },
            "removedFields": ["gone"],
            "truncatedArrays": [{ "field": "a", "newSize": 2 }],
        };
        update(&mut record, &description);
        assert_eq!(record, doc! { "a": [{ "x": 7 }, { "x": 2 }, { "x": 9 }], "step": 2 });
    }
}
