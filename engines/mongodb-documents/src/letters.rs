//! The letters of documents: the filter of a change stream for the changes that carry letters for
//! an inbox.

use mongodb::bson::{Bson, bson, doc};
use tenure_mongodb::extension::Wants;

/// Returns the filter for the changes of documents, with lines in this field, that carry letters
/// for this inbox. The names of updated fields contain dots, so no path leads to their values.
pub(crate) fn letters(inbox: &str, field: &str) -> Wants {
    let changed =
        bson!({ "$objectToArray": { "$ifNull": ["$updateDescription.updatedFields", {}] } });
    let value = |name: &str| {
        let is_it = bson!({ "$eq": ["$$this.k", { "$literal": name }] });
        bson!({ "$arrayElemAt": [{ "$filter": { "input": "$$changed", "as": "this", "cond": is_it } }, 0] })
    };
    let (alone, whole) = (value(&format!("{field}.notices")), value(field));
    let notices: Bson = bson!({ "$let": { "vars": { "changed": changed }, "in": { "$let": {
        "vars": { "alone": alone, "whole": whole },
        "in": { "$ifNull": [
            "$$alone.v",
            { "$ifNull": ["$$whole.v.notices", format!("$fullDocument.{field}.notices")] },
        ] },
    } } } });
    Wants {
        computed: doc! { "notices": notices },
        cases: vec![doc! {
            "operationType": { "$in": ["update", "replace"] }, "notices": { "$regex": inbox },
        }],
        sent: doc! { "notices": 1 },
    }
}
