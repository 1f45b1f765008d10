//! Opening: whether the documents of a collection have something else in the field of the locks.

use mongodb::bson::{Bson, doc};
use tenure_core::{Error, Result};
use tenure_mongodb::extension::CommandSender;

use crate::write::raw_array;

/// Number of documents in which the field of the locks is checked.
const SAMPLE: i32 = 16;

/// Refuses a field in which documents have something other than a lock.
pub(crate) async fn check(commands: &CommandSender, field: &str) -> Result<()> {
    let foreign = doc! {
        field: { "$exists": true, "$nin": [Bson::Null, {}] },
        format!("{field}.step"): { "$not": { "$type": "number" } },
    };
    let sample = [
        doc! { "$limit": SAMPLE },
        doc! { "$match": foreign },
        doc! { "$limit": 1 },
        doc! { "$project": { "_id": 1 } },
    ];
    match commands.aggregate(raw_array(&sample)).await {
        Ok(found) if !found.is_empty() => Err(Error::rejected(format!(
            "documents of {} cannot be locked: they have something else in the field `{field}`; name another one by Documents::field",
            commands.collection
        ))),
        Err(error) if error.is_retryable() => Err(error),
        _ => Ok(()),
    }
}
