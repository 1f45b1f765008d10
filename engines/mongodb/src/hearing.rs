//! Hearing: the filter of a change stream for the changes that carry letters for an inbox.

use mongodb::bson::{Bson, Document, bson, doc};

use crate::feed::Wants;

/// The kind of documents in the collection.
pub(crate) enum Hearing {
    /// Records of Tenure's own.
    Records,
    /// The program's own documents, with lines in this field.
    Documents(String),
}

impl Hearing {
    /// Returns the filter for the changes that carry letters for this inbox, in the field `bell`.
    pub(crate) fn letters(&self, inbox: &str) -> Wants {
        match self {
            Self::Records => in_records(inbox),
            Self::Documents(field) => in_documents(inbox, field),
        }
    }
}

fn in_records(inbox: &str) -> Wants {
    let (delta, whole) = ("updateDescription.updatedFields.bell", "fullDocument.bell");
    let letter = |kind: &str, at: &str| doc! { "operationType": kind, at: { "$regex": inbox } };
    let bell = bson!({ "$ifNull": [format!("${delta}"), format!("${whole}")] });
    Wants {
        computed: Document::new(),
        // A new record has no letters.
        cases: vec![letter("update", delta), letter("replace", whole)],
        sent: doc! { "bell": bell },
    }
}

/// The names of updated fields contain dots, so no path leads to their values.
fn in_documents(inbox: &str, field: &str) -> Wants {
    let changed =
        bson!({ "$objectToArray": { "$ifNull": ["$updateDescription.updatedFields", {}] } });
    let value = |name: &str| {
        let is_it = bson!({ "$eq": ["$$this.k", { "$literal": name }] });
        bson!({ "$arrayElemAt": [{ "$filter": { "input": "$$changed", "as": "this", "cond": is_it } }, 0] })
    };
    let (alone, whole) = (value(&format!("{field}.bell")), value(field));
    let bell: Bson = bson!({ "$let": { "vars": { "changed": changed }, "in": { "$let": {
        "vars": { "alone": alone, "whole": whole },
        "in": { "$ifNull": [
            "$$alone.v",
            { "$ifNull": ["$$whole.v.bell", format!("$fullDocument.{field}.bell")] },
        ] },
    } } } });
    Wants {
        computed: doc! { "bell": bell },
        cases: vec![doc! {
            "operationType": { "$in": ["update", "replace"] }, "bell": { "$regex": inbox },
        }],
        sent: doc! { "bell": 1 },
    }
}
