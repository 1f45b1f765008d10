//! The way to a part: the expressions that find it in a document, take its line out, and put it
//! back.
//!
//! A path may match no part, or several. Then nothing is put back, and every verb reports it.

use mongodb::bson::{Bson, Document, bson, doc};
use tenure_core::{Error, Key, Reason, errors};
use tenure_mongodb::extension::{PartStages, Refusal, may_have_line, scratch};

use crate::path::{Path, PathStep};

/// Count of parts if there is one part, and its lock's field has something other than a line.
const FOREIGN: i64 = -1;

/// Returns how a part of a document is found, whose line is in this field of the part.
pub(crate) fn way(field: &str, path: &Path) -> PartStages {
    let (parts, work) = (parts("", path.steps(), 0), scratch(field));
    let part = part(path);
    let (line, size) = (format!("$part.{field}"), doc! { "$size": "$$parts" });
    let one = doc! { "$cond": [may_have_line(&line), 1, FOREIGN] };
    let count = doc! { "$cond": [{ "$eq": [&size, 1] }, one, &size] };
    let known = bson!({ "$let": {
        "vars": { "parts": parts, "work": format!("${work}") },
        "in": { "$let": {
            "vars": { "part": { "$arrayElemAt": ["$$parts", 0] } },
            "in": { "$let": {
                "vars": { "count": count },
                "in": { "$mergeObjects": [
                    { "$cond": [{ "$eq": ["$$count", 1] }, format!("${line}"), {}] },
                    "$$work",
                    { "parts": "$$count", "step": format!("${field}.step") },
                ] },
            } },
        } },
    } });
    let mut out = Document::new();
    out.insert(&work, known);
    PartStages {
        place: path.names(),
        part,
        out: vec![doc! { "$set": out }],
        back: vec![back(field, &work, path)],
        refusals: refusals(&work),
    }
}

/// Returns why no ticket joins: the path finds no part or several, or the part's field has
/// something other than a line.
fn refusals(work: &str) -> Vec<Refusal> {
    let parts = format!("${work}.parts");
    let refusal = |sign: &str, count: i64, error: fn(&Key) -> Error| {
        let mut when = Document::new();
        when.insert(sign, bson!([&parts, count]));
        Refusal { when: when.into(), error }
    };
    vec![
        refusal("$eq", FOREIGN, |_| errors::unreadable_ticket()),
        refusal("$lt", 1, |key| {
            Error::rejected(format!(
                "{key:?} is not there: the document has no such part, or what stands there is no document"
            ))
            .with_reason(Reason::PartNotFound)
        }),
        refusal("$gt", 1, |key| {
            Error::rejected(format!(
                "{key:?} is not one part: its filters match more than one; name the part so that only one matches"
            ))
        }),
    ]
}

/// Puts `step`, `notices` and `did` into the root, and all else into the part. Of an empty line
/// only the last number, the clock and the empty arrays are kept.
fn back(field: &str, work: &str, path: &Path) -> Document {
    let value = |name: &str| format!("${work}.{name}");
    let count = bson!({ "$add": [{ "$size": value("held") }, { "$size": value("waiting") }] });
    let kept = |names: &[&str]| -> Document {
        names.iter().map(|name| ((*name).to_owned(), Bson::String(value(name)))).collect()
    };
    let line = bson!({ "$cond": [
        { "$eq": [count, 0] },
        kept(&["last", "at", "held", "waiting"]),
        kept(&["last", "at", "held", "waiting", "next_expiry", "of", "bytes"]),
    ] });
    let mut set: Document = ["step", "notices", "did"]
        .iter()
        .map(|name| (format!("{field}.{name}"), Bson::String(value(name))))
        .collect();
    if let Some(PathStep::Field(first)) = path.steps().first() {
        let whole = format!("${first}");
        let put = with_leaf(&whole, &path.steps()[1..], 0, &|part| {
            let mut fields = Document::new();
            fields.insert(field, line.clone());
            bson!({ "$mergeObjects": [part, fields] })
        });
        let is_one = bson!({ "$eq": [value("parts"), 1] });
        set.insert(first, bson!({ "$cond": [is_one, put, whole] }));
    }
    set.insert(work, "$$REMOVE");
    doc! { "$set": set }
}

/// Returns an array of all parts that these steps lead to from a value.
fn parts(from: &str, steps: &[PathStep], depth: usize) -> Bson {
    match steps {
        [] => {
            let is_document = bson!({ "$eq": [{ "$type": from }, "object"] });
            bson!({ "$cond": [is_document, [from], []] })
        }
        [PathStep::Field(name), rest @ ..] => parts(&inside(from, name), rest, depth),
        [PathStep::Element(fields), rest @ ..] => {
            let (name, value) = (format!("e{depth}"), format!("$$e{depth}"));
            let array = bson!({ "$cond": [{ "$isArray": from }, from, []] });
            let found = bson!({ "$filter": {
                "input": array, "as": name.as_str(), "cond": matches(&value, fields),
            } });
            let deeper = parts(&value, rest, depth + 1);
            let mut vars = Document::new();
            vars.insert(name, "$$this");
            let deeper = bson!({ "$let": { "vars": vars, "in": deeper } });
            bson!({ "$reduce": {
                "input": found, "initialValue": [], "in": { "$concatArrays": ["$$value", deeper] },
            } })
        }
    }
}

/// Returns the value with another one in the place of the one part that these steps lead to.
fn with_leaf(from: &str, steps: &[PathStep], depth: usize, leaf: &dyn Fn(&str) -> Bson) -> Bson {
    match steps {
        [] => leaf(from),
        [PathStep::Field(name), rest @ ..] => {
            let mut fields = Document::new();
            fields.insert(name, with_leaf(&inside(from, name), rest, depth, leaf));
            bson!({ "$mergeObjects": [from, fields] })
        }
        [PathStep::Element(fields), rest @ ..] => {
            let (name, value) = (format!("e{depth}"), format!("$$e{depth}"));
            let changed = with_leaf(&value, rest, depth + 1, leaf);
            // An element beside the part may match these steps, and not those that follow.
            let has_part = bson!({ "$eq": [{ "$size": parts(&value, rest, depth + 1) }, 1] });
            let is_it = bson!({ "$and": [matches(&value, fields), has_part] });
            let one = bson!({ "$cond": [is_it, changed, value] });
            bson!({ "$map": { "input": from, "as": name, "in": one } })
        }
    }
}

/// Returns the one part that a path leads to, or null if it leads to none or to several.
pub(crate) fn part(path: &Path) -> Bson {
    bson!({ "$let": {
        "vars": { "parts": parts("", path.steps(), 0) },
        "in": { "$cond": [{ "$eq": [{ "$size": "$$parts" }, 1] }, { "$arrayElemAt": ["$$parts", 0] }, Bson::Null] },
    } })
}

/// Returns the document with another part in the place of the one that a path leads to.
pub(crate) fn with_part(root: &str, path: &Path, part: &Bson) -> Bson {
    with_leaf(root, path.steps(), 0, &|_| part.clone())
}

/// Returns whether the fields of an element have these values. Most elements of a long array fail
/// the first comparison, so the type is compared last.
pub(crate) fn matches(element: &str, fields: &Document) -> Bson {
    let one = |(name, value): (&String, &Bson)| bson!({ "$eq": [format!("{element}.{name}"), { "$literal": value.clone() }] });
    let mut all: Vec<Bson> = fields.iter().map(one).collect();
    all.push(bson!({ "$eq": [{ "$type": element }, "object"] }));
    bson!({ "$and": all })
}

fn inside(from: &str, name: &str) -> String {
    if from.is_empty() { format!("${name}") } else { format!("{from}.{name}") }
}
