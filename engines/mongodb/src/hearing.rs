//! Hearing: which of all changes in a collection a client is told by its change stream, and which line's record each names.

use mongodb::bson::{Bson, Document, RawBsonRef, bson, doc};

use crate::documents::text;

/// What the collection keeps.
pub(crate) enum Hearing {
    /// Records of Tenure's own.
    Records,
    /// Somebody else's documents, with lines in this field.
    Documents(String),
}

impl Hearing {
    /// Of all changes those that concern this inbox, and those that no verb of Tenure's makes.
    pub(crate) fn filter(&self, inbox: &str) -> Vec<Document> {
        match self {
            Self::Records => of_records(inbox),
            Self::Documents(field) => of_documents(inbox, field),
        }
    }

    /// The record that has this id.
    pub(crate) fn record(&self, id: RawBsonRef<'_>) -> Option<String> {
        match self {
            Self::Records => id.as_str().map(str::to_owned),
            Self::Documents(_) => Some(text::comparable(&Bson::try_from(id).ok()?)),
        }
    }
}

fn of_records(inbox: &str) -> Vec<Document> {
    let (delta, whole) = ("updateDescription.updatedFields", "fullDocument");
    let letter = |at: &str| doc! { format!("{at}.bell"): { "$regex": inbox } };
    let foreign = |operation: &str, at: &str| doc! { "operationType": operation, format!("{at}.step"): no_number() };
    let cases = vec![
        letter(delta),
        letter(whole),
        doc! { "operationType": { "$in": gone() } },
        foreign("update", delta),
        foreign("replace", whole),
    ];
    vec![
        doc! { "$match": { "$or": cases } },
        doc! { "$project": {
            "operationType": 1,
            "documentKey": 1,
            "bell": { "$ifNull": [format!("${delta}.bell"), format!("${whole}.bell")] },
        } },
    ]
}

/// Whoever sets plain values in a document does nothing to its lines, and is not heard. What is written by verbs is told
/// by the names of the fields, which stand in one text with their dots.
fn of_documents(inbox: &str, field: &str) -> Vec<Document> {
    let or_none = |field: &str| bson!({ "$ifNull": [field, []] });
    let changed =
        bson!({ "$objectToArray": { "$ifNull": ["$updateDescription.updatedFields", {}] } });
    let bell = |one: &str| {
        let is_it = bson!({ "$eq": ["$$this.k", { "$literal": one }] });
        bson!({ "$arrayElemAt": [{ "$filter": { "input": "$$changed", "as": "this", "cond": is_it } }, 0] })
    };
    let bells = bson!({ "$let": {
        "vars": { "alone": bell(&format!("{field}.bell")), "whole": bell(field) },
        "in": { "$ifNull": [
            "$$alone.v",
            { "$ifNull": ["$$whole.v.bell", format!("$fullDocument.{field}.bell")] },
        ] },
    } });
    let steps = bson!({ "$let": {
        "vars": { "alone": bell(&format!("{field}.step")), "whole": bell(field) },
        "in": { "$ifNull": [
            "$$alone.v",
            { "$ifNull": ["$$whole.v.step", format!("$fullDocument.{field}.step")] },
        ] },
    } });
    // The mark that a holder leaves with each of its writes changes nothing of the line.
    let is_mark = bson!({ "$regexMatch": { "input": "$$this.k", "regex": "[.]w$" } });
    let starts = bson!({ "$and": [
        { "$eq": [{ "$indexOfBytes": ["$$this.k", { "$literal": field }] }, 0] }, { "$not": [is_mark] },
    ] });
    let is_deep = bson!({ "$or": [
        starts, { "$in": [{ "$type": "$$this.v" }, ["object", "array"]] },
    ] });
    let deep = bson!({ "$anyElementTrue": [{ "$map": { "input": "$$changed", "as": "this", "in": is_deep } }] });
    let some = |field: &str| bson!({ "$gt": [{ "$size": or_none(field) }, 0] });
    let is_deep = bson!({ "$or": [
        deep,
        some("$updateDescription.removedFields"),
        some("$updateDescription.truncatedArrays"),
    ] });
    let with =
        |what: Bson| bson!({ "$let": { "vars": { "changed": changed.clone() }, "in": what } });
    vec![
        doc! { "$project": {
            "operationType": 1, "documentKey": 1,
            "bell": with(bells), "step": with(steps), "deep": with(is_deep),
        } },
        doc! { "$match": { "$or": [
            { "bell": { "$regex": inbox } },
            { "operationType": { "$in": gone() } },
            { "operationType": "replace", "step": no_number() },
            { "operationType": "update", "step": no_number(), "deep": true },
        ] } },
    ]
}

/// There is no number of a step, which every verb writes. Where a stranger has put an array in the place of a line, all of the line's
/// fields are arrays.
fn no_number() -> Document {
    doc! { "$not": { "$type": "number" } }
}

fn gone() -> Vec<&'static str> {
    ["delete", "drop", "rename", "dropDatabase", "invalidate"].to_vec()
}
