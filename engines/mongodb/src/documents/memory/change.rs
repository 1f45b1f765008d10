//! A change of a document in memory, by the operators that most programs use.

use mongodb::bson::{Bson, Document};
use tenure_core::{Error, Result};

use super::filter::{compare, equal};

/// Changes the document. If an operator is refused, nothing is changed.
pub(super) fn apply(document: &mut Document, operators: &Document) -> Result<()> {
    let mut new = document.clone();
    for (operator, fields) in operators {
        let fields = fields.as_document().filter(|_| operator.starts_with('$'));
        let fields = fields.ok_or_else(|| {
            Error::invalid(format!(
                "`{operator}` is no operator of an update: to put another document in its place, say `replace`"
            ))
        })?;
        for (name, value) in fields {
            one(&mut new, operator, name, value)?;
        }
    }
    *document = new;
    Ok(())
}

fn one(document: &mut Document, operator: &str, name: &str, value: &Bson) -> Result<()> {
    let (parent, last) = inside(document, name)?;
    match operator {
        "$set" => drop(parent.insert(last, value.clone())),
        "$unset" => drop(parent.remove(last)),
        "$inc" => {
            let before = parent.get(last).cloned().unwrap_or(Bson::Int32(0));
            parent.insert(last, sum(name, &before, value)?);
        }
        "$push" | "$pull" => {
            let array = parent.entry(last.to_owned()).or_insert_with(|| Bson::Array(Vec::new()));
            let Bson::Array(array) = array else {
                return Err(Error::rejected(format!("`{name}` is no array")));
            };
            if operator == "$push" {
                array.push(value.clone());
            } else {
                array.retain(|one| !is_pulled(one, value));
            }
        }
        _ => {
            return Err(Error::unsupported(format!(
                "documents in memory know no {operator}: they know $set, $unset, $inc, $push and $pull"
            )));
        }
    }
    Ok(())
}

/// Returns the document in which a field is, by a name with dots, and the field's own name.
fn inside<'a, 'b>(
    document: &'a mut Document,
    name: &'b str,
) -> Result<(&'a mut Document, &'b str)> {
    let (mut parent, mut rest) = (document, name);
    while let Some((first, behind)) = rest.split_once('.') {
        let next =
            parent.entry(first.to_owned()).or_insert_with(|| Bson::Document(Document::new()));
        let Bson::Document(next) = next else {
            return Err(Error::rejected(format!(
                "`{name}` leads through something that is no document"
            )));
        };
        (parent, rest) = (next, behind);
    }
    Ok((parent, rest))
}

fn sum(name: &str, before: &Bson, by: &Bson) -> Result<Bson> {
    let whole = |value: &Bson| match value {
        Bson::Int32(it) => Some(i64::from(*it)),
        Bson::Int64(it) => Some(*it),
        _ => None,
    };
    let number = |value: &Bson| value.as_f64().or_else(|| value.as_i32().map(f64::from));
    if let (Bson::Int32(one), Bson::Int32(other)) = (before, by)
        && let Some(sum) = one.checked_add(*other)
    {
        return Ok(Bson::Int32(sum));
    }
    if let (Some(one), Some(other)) = (whole(before), whole(by)) {
        return one
            .checked_add(other)
            .map(Bson::Int64)
            .ok_or_else(|| Error::rejected("the sum is too large"));
    }
    match (number(before), number(by)) {
        (Some(one), Some(other)) => Ok(Bson::Double(one + other)),
        _ => Err(Error::rejected(format!("`{name}` is no number"))),
    }
}

/// Returns whether an element is this value, or is a document that has all its fields.
fn is_pulled(one: &Bson, value: &Bson) -> bool {
    match (one, value) {
        (Bson::Document(one), Bson::Document(fields)) => {
            fields.iter().all(|(name, value)| one.get(name).is_some_and(|it| equal(it, value)))
        }
        _ => compare(one, value).is_some_and(std::cmp::Ordering::is_eq) || equal(one, value),
    }
}
