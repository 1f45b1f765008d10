//! A value beside a line: a text that one command compares and replaces.

use mongodb::bson::{RawDocumentBuf, bson, doc, rawdoc};

/// Builds the first stage, which has the request.
pub(crate) fn ask(seen: &str, value: &str) -> RawDocumentBuf {
    rawdoc! { "$set": { "ask": { "$literal": { "seen": seen, "value": value } } } }
}

/// Builds the stages that replace the value. A value that is no text equals no text of a caller.
pub(crate) fn stages() -> Vec<RawDocumentBuf> {
    let is_seen = bson!({ "$eq": [{ "$ifNull": ["$value", ""] }, "$ask.seen"] });
    let replace = doc! { "$set": { "value": { "$cond": [is_seen, "$ask.value", "$value"] } } };
    // The TTL index removes a record with the empty text.
    let reap = bson!({ "$cond": [{ "$eq": ["$value", ""] }, "$$NOW", false] });
    let end = doc! { "$set": { "reap": reap, "ask": "$$REMOVE" } };
    let raw = |stage| RawDocumentBuf::try_from(&stage).expect("a stage is a document");
    [replace, end].map(raw).into()
}

/// The fields of the answer.
pub(crate) fn fields() -> RawDocumentBuf {
    rawdoc! { "_id": 0, "value": 1 }
}
