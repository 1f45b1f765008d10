//! A filter over documents in memory, and their order.

use std::cmp::Ordering;

use mongodb::bson::{Bson, Document};
use tenure_core::{Error, Result};

use crate::documents::text;

/// Returns whether a document matches.
pub(super) fn matches(document: &Document, filter: &Document) -> Result<bool> {
    for (name, wanted) in filter {
        let is_so = match (name.as_str(), wanted) {
            ("$and", Bson::Array(all)) => every(document, all)?,
            ("$or", Bson::Array(some)) => any(document, some)?,
            (name, _) if name.starts_with('$') => return Err(unknown(name)),
            (name, Bson::Document(operators)) if operators.keys().any(|it| it.starts_with('$')) => {
                let value = value(document, name);
                operators.iter().try_fold(true, |so_far, (operator, wanted)| {
                    Ok::<bool, Error>(so_far && holds(value, operator, wanted)?)
                })?
            }
            (name, wanted) => value(document, name).is_some_and(|value| equal(value, wanted)),
        };
        if !is_so {
            return Ok(false);
        }
    }
    Ok(true)
}

fn every(document: &Document, filters: &[Bson]) -> Result<bool> {
    filters
        .iter()
        .filter_map(Bson::as_document)
        .try_fold(true, |so_far, filter| Ok(so_far && matches(document, filter)?))
}

fn any(document: &Document, filters: &[Bson]) -> Result<bool> {
    filters
        .iter()
        .filter_map(Bson::as_document)
        .try_fold(false, |so_far, filter| Ok(so_far || matches(document, filter)?))
}

fn holds(value: Option<&Bson>, operator: &str, wanted: &Bson) -> Result<bool> {
    let is = |orders: &[Ordering]| {
        value.and_then(|value| compare(value, wanted)).is_some_and(|order| orders.contains(&order))
    };
    Ok(match (operator, wanted) {
        ("$eq", _) => value.is_some_and(|value| equal(value, wanted)),
        ("$ne", _) => !value.is_some_and(|value| equal(value, wanted)),
        ("$gt", _) => is(&[Ordering::Greater]),
        ("$gte", _) => is(&[Ordering::Greater, Ordering::Equal]),
        ("$lt", _) => is(&[Ordering::Less]),
        ("$lte", _) => is(&[Ordering::Less, Ordering::Equal]),
        ("$in", Bson::Array(some)) => {
            value.is_some_and(|value| some.iter().any(|one| equal(value, one)))
        }
        ("$exists", Bson::Boolean(is_there)) => value.is_some() == *is_there,
        _ => return Err(unknown(operator)),
    })
}

fn unknown(operator: &str) -> Error {
    Error::unsupported(format!("documents in memory know no {operator} in a filter"))
}

/// Returns the value of a field, by a name with dots.
pub(super) fn value<'a>(document: &'a Document, name: &str) -> Option<&'a Bson> {
    match name.split_once('.') {
        None => document.get(name),
        Some((first, rest)) => value(document.get_document(first).ok()?, rest),
    }
}

/// Returns whether two values are equal, whatever the types of their numbers.
pub(super) fn equal(one: &Bson, other: &Bson) -> bool {
    text::comparable(one) == text::comparable(other)
}

/// Returns the order of two values of one kind.
pub(super) fn compare(one: &Bson, other: &Bson) -> Option<Ordering> {
    let number = |value: &Bson| match value {
        Bson::Int32(it) => Some(f64::from(*it)),
        #[allow(clippy::cast_precision_loss, reason = "so large numbers are rare in tests")]
        Bson::Int64(it) => Some(*it as f64),
        Bson::Double(it) => Some(*it),
        _ => None,
    };
    match (one, other) {
        (Bson::String(one), Bson::String(other)) => Some(one.cmp(other)),
        (Bson::Boolean(one), Bson::Boolean(other)) => Some(one.cmp(other)),
        (Bson::DateTime(one), Bson::DateTime(other)) => Some(one.cmp(other)),
        (Bson::ObjectId(one), Bson::ObjectId(other)) => Some(one.cmp(other)),
        _ => number(one)?.partial_cmp(&number(other)?),
    }
}

/// Returns the order of two documents in a sort: 1 is ascending, -1 is descending. A missing value
/// comes first.
pub(super) fn sorted(one: &Document, other: &Document, order: &Document) -> Ordering {
    let by = |(name, way): (&String, &Bson)| {
        let ordering = match (value(one, name), value(other, name)) {
            (Some(one), Some(other)) => compare(one, other).unwrap_or(Ordering::Equal),
            (one, other) => one.is_some().cmp(&other.is_some()),
        };
        let is_down = matches!(way, Bson::Int32(way) if *way < 0);
        if is_down { ordering.reverse() } else { ordering }
    };
    order.iter().map(by).find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
}
