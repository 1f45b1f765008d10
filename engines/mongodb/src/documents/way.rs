//! The way to a part: the expressions that find it in a document, take its line out, and put it
//! back.
//!
//! A path may match no part, or several; then nothing is put back, and every verb says so.

use mongodb::bson::{Bson, Document, bson, doc};

use super::path::{Path, Step};
use crate::lens::{Way, scratch};
use crate::readable::may_have_line;

/// In the place of how many parts there are: there is one, and what it has in the place of a line
/// is none.
pub(crate) const FOREIGN: i64 = -1;

/// How a part of a document is found, whose line is in this field of the part.
pub(crate) fn way(field: &str, path: &Path) -> Way {
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
    Way {
        place: path.names(),
        part,
        out: vec![doc! { "$set": out }],
        back: vec![back(field, &work, path)],
    }
}

/// What the step says of itself goes to the root, and all else to the part. Of a line in which
/// nobody stands only the last number is kept, and the clock.
fn back(field: &str, work: &str, path: &Path) -> Document {
    let value = |name: &str| format!("${work}.{name}");
    let count = bson!({ "$add": [{ "$size": value("held") }, { "$size": value("waiting") }] });
    let kept = |names: &[&str]| -> Document {
        names.iter().map(|name| ((*name).to_owned(), Bson::String(value(name)))).collect()
    };
    let line = bson!({ "$cond": [
        { "$eq": [count, 0] },
        kept(&["last", "at", "held", "waiting"]),
        kept(&["last", "at", "held", "waiting", "quiet", "of", "bytes"]),
    ] });
    let mut set: Document = ["step", "bell", "did"]
        .iter()
        .map(|name| (format!("{field}.{name}"), Bson::String(value(name))))
        .collect();
    if let Some(Step::Field(first)) = path.steps().first() {
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

/// An array of all parts that these steps lead to from a value.
fn parts(from: &str, steps: &[Step], depth: usize) -> Bson {
    match steps {
        [] => {
            let is_document = bson!({ "$eq": [{ "$type": from }, "object"] });
            bson!({ "$cond": [is_document, [from], []] })
        }
        [Step::Field(name), rest @ ..] => parts(&inside(from, name), rest, depth),
        [Step::Element(fields), rest @ ..] => {
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

/// The value after the one part that these steps lead to is another one.
fn with_leaf(from: &str, steps: &[Step], depth: usize, leaf: &dyn Fn(&str) -> Bson) -> Bson {
    match steps {
        [] => leaf(from),
        [Step::Field(name), rest @ ..] => {
            let mut fields = Document::new();
            fields.insert(name, with_leaf(&inside(from, name), rest, depth, leaf));
            bson!({ "$mergeObjects": [from, fields] })
        }
        [Step::Element(fields), rest @ ..] => {
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

/// The one part that a path leads to; null if it leads to none, or to more than one.
pub(super) fn part(path: &Path) -> Bson {
    bson!({ "$let": {
        "vars": { "parts": parts("", path.steps(), 0) },
        "in": { "$cond": [{ "$eq": [{ "$size": "$$parts" }, 1] }, { "$arrayElemAt": ["$$parts", 0] }, Bson::Null] },
    } })
}

/// The document after the one part that a path leads to is another one.
pub(super) fn with_part(root: &str, path: &Path, part: &Bson) -> Bson {
    with_leaf(root, path.steps(), 0, &|_| part.clone())
}

/// Whether the fields of an element have these values. Most elements of a long array do not, which
/// the first comparison tells.
pub(crate) fn matches(element: &str, fields: &Document) -> Bson {
    let one = |(name, value): (&String, &Bson)| bson!({ "$eq": [format!("{element}.{name}"), { "$literal": value.clone() }] });
    let mut all: Vec<Bson> = fields.iter().map(one).collect();
    all.push(bson!({ "$eq": [{ "$type": element }, "object"] }));
    bson!({ "$and": all })
}

fn inside(from: &str, name: &str) -> String {
    if from.is_empty() { format!("${name}") } else { format!("{from}.{name}") }
}
