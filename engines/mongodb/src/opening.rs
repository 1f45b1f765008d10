//! Opening: whether a collection can keep locks at all, and what prevents it.

use mongodb::bson::{Bson, DateTime, Document, RawArrayBuf, RawDocumentBuf, bson, doc, rawdoc};
use tenure_core::{Error, Reason, Result};

use crate::answer::whole;
use crate::call::Calls;
use crate::line::raw;
use crate::spots::Spots;

/// Number of documents in which the field of the locks is checked.
const SAMPLE: i32 = 16;

/// Refuses a collection that cannot keep locks. Returns warnings of settings that may refuse a lock
/// later.
pub(crate) async fn check(calls: &Calls, spots: &Spots) -> Result<Vec<String>> {
    let (name, field) = (calls.collection.as_str(), spots.in_documents().ok().map(|it| &*it.field));
    let command = rawdoc! {
        "listCollections": 1, "filter": { "name": name }, "authorizedCollections": true,
    };
    let mut warnings = Vec::new();
    match calls.ask(&calls.database, command).await {
        Ok(answer) => {
            if let Some(found) = described(&answer) {
                refuse(name, field, found)?;
                warnings.extend(match field {
                    Some(field) => validated(name, field, found)?,
                    None => validated_records(calls, found).await?,
                });
            }
        }
        Err(error) if error.is_retryable() || error.reason() == Some(Reason::LoginRequired) => return Err(error),
        // A user who may not list collections gets the refusal from the first lock.
        Err(_) => warnings.push(match field {
            Some(field) => format!(
                "this user may not ask how the collection {name} was made: allow `listCollections`, or see that it is neither capped nor a view nor a time series, and that its validator allows the field `{field}`"
            ),
            None => format!(
                "this user may not ask how the collection {name} was made: allow `listCollections`, or see that it is neither capped nor a view nor a time series, and has no validator"
            ),
        }),
    }
    if let Some(field) = field {
        refuse_foreign(calls, field).await?;
    }
    Ok(warnings)
}

/// Refuses a field in which documents have something other than a lock.
async fn refuse_foreign(calls: &Calls, field: &str) -> Result<()> {
    let name = calls.collection.as_str();
    let sample = rawdoc! {
        "aggregate": name,
        "pipeline": [{ "$limit": SAMPLE }, { "$match": foreign(field) }, { "$limit": 1 }, { "$project": { "_id": 1 } }],
        "cursor": {},
        "maxTimeMS": calls.server_ms(),
    };
    match calls.ask(&calls.database, sample).await {
        Ok(answer) if described(&answer).is_some() => Err(Error::rejected(format!(
            "documents of {name} cannot be locked: they have something else in the field `{field}`; name another one by Documents::field"
        ))),
        Err(error) if error.is_retryable() => Err(error),
        _ => Ok(()),
    }
}

/// Returns the query for documents whose field has something other than a lock.
fn foreign(field: &str) -> RawDocumentBuf {
    raw(&doc! {
        field: { "$exists": true, "$nin": [Bson::Null, {}] },
        format!("{field}.step"): { "$not": { "$type": "number" } },
    })
}

fn described(answer: &Document) -> Option<&Document> {
    let batch = answer.get_document("cursor").ok()?.get_array("firstBatch").ok()?;
    batch.first()?.as_document()
}

/// Refuses a kind of collection whose documents cannot be changed, or are deleted by the server.
fn refuse(name: &str, field: Option<&str>, found: &Document) -> Result<()> {
    let options = found.get_document("options").ok();
    let is_capped = options.and_then(|options| options.get_bool("capped").ok()).unwrap_or(false);
    let why = match (found.get_str("type"), field) {
        (Ok("view"), Some(_)) => "a view: lock the documents of the collection behind it",
        (Ok("view"), None) => "a view: take another collection",
        (Ok("timeseries"), Some(_)) => {
            "a time series, whose documents cannot be changed: lock the documents of another collection"
        }
        (Ok("timeseries"), None) => {
            "a time series, whose documents cannot be changed: take another collection"
        }
        (_, Some(_)) if is_capped => {
            "capped, and a document in a capped collection cannot grow: take another collection"
        }
        (_, None) if is_capped => {
            "capped, and the server deletes its oldest records, though they are held: take another collection"
        }
        _ => return Ok(()),
    };
    Err(match field {
        Some(_) => Error::rejected(format!("documents of {name} cannot be locked: it is {why}")),
        None => Error::rejected(format!("the collection {name} cannot keep locks: it is {why}")),
    })
}

/// Returns whether the server refuses documents that do not pass the validator.
fn is_strict(options: &Document) -> bool {
    let says = |name, word| options.get_str(name).is_ok_and(|it| it == word);
    !says("validationAction", "warn") && !says("validationLevel", "off")
}

/// Refuses a validator that records do not pass.
async fn validated_records(calls: &Calls, found: &Document) -> Result<Option<String>> {
    let Ok(options) = found.get_document("options") else { return Ok(None) };
    let Ok(validator) = options.get_document("validator") else { return Ok(None) };
    if !is_strict(options) {
        return Ok(None);
    }
    let (name, records) = (calls.collection.as_str(), records());
    // This stage yields one document even if the collection is empty.
    let one = doc! { "$facet": { "none": [{ "$limit": 1 }] } };
    let stages = [
        doc! { "$limit": 1 },
        one,
        doc! { "$project": { "records": { "$literal": records.to_vec() } } },
        doc! { "$unwind": "$records" },
        doc! { "$replaceWith": "$records" },
        doc! { "$match": validator.clone() },
        doc! { "$count": "passed" },
    ];
    let mut pipeline = RawArrayBuf::new();
    for stage in &stages {
        pipeline.push(raw(stage));
    }
    let command = rawdoc! {
        "aggregate": name, "pipeline": pipeline, "cursor": {}, "maxTimeMS": calls.server_ms(),
    };
    let passed = match calls.ask(&calls.database, command).await {
        Ok(answer) => described(&answer).and_then(|one| whole(one, "passed")).unwrap_or(0),
        Err(error) if error.is_retryable() => return Err(error),
        Err(error) => {
            return Ok(Some(format!(
                "the validator of {name} may refuse the records of locks, and cannot be asked: drop it, or take another collection ({error})"
            )));
        }
    };
    if passed == 2 {
        return Ok(None);
    }
    Err(Error::rejected(format!(
        "the collection {name} cannot keep locks: its validator refuses their records; drop it, or take another collection"
    )))
}

/// Returns a record in which a ticket stands, and a fresh one.
fn records() -> [Document; 2] {
    let date = DateTime::from_millis(0);
    let record = doc! {
        "_id": "v1.0", "key": "key", "of": 1_i64, "held": [], "waiting": [], "at": 0_i64, "quiet": 0_i64, "step": 1_i64,
        "bell": "", "did": [], "woken": 0_i64, "bytes": 100_i32, "reap": [date, true],
    };
    let seat = bson!({
        "id": "0", "n": 1_i64, "ends": 0_i64, "take": 1_i64, "told": false, "inbox": "0", "ttl_us": 1_i64, "owner": "", "note": "",
    });
    let (mut held, mut fresh) = (record.clone(), record);
    held.extend(doc! { "held": [seat], "last": 1_i64 });
    fresh.insert("made", "0");
    [held, fresh]
}

/// Refuses a validator that forbids the field. Returns a warning of one that may forbid it in a
/// part.
fn validated(name: &str, field: &str, found: &Document) -> Result<Option<String>> {
    let Ok(options) = found.get_document("options") else { return Ok(None) };
    let schema = options.get_document("validator").and_then(|it| it.get_document("$jsonSchema"));
    let Ok(schema) = schema else { return Ok(None) };
    let is_strict = is_strict(options);
    if is_strict && is_closed(schema, field) {
        return Err(Error::rejected(format!(
            "documents of {name} cannot be locked: the collection's $jsonSchema forbids unknown fields; add `{field}: {{}}` to its properties"
        )));
    }
    let is_closed_inside = is_strict && inner(schema).any(|schema| is_any_closed(schema, field));
    Ok(is_closed_inside.then(|| {
        format!(
            "the $jsonSchema of {name} forbids unknown fields in some parts: to lock these, add `{field}: {{}}` to their properties"
        )
    }))
}

fn is_closed(schema: &Document, field: &str) -> bool {
    let is_known =
        schema.get_document("properties").is_ok_and(|properties| properties.contains_key(field));
    schema.get_bool("additionalProperties").is_ok_and(|may| !may) && !is_known
}

fn is_any_closed(schema: &Document, field: &str) -> bool {
    is_closed(schema, field) || inner(schema).any(|schema| is_any_closed(schema, field))
}

/// Returns the schemas of the fields and elements inside.
fn inner(schema: &Document) -> impl Iterator<Item = &Document> {
    let properties = schema.get_document("properties").ok().into_iter();
    let fields = properties.flat_map(|fields| fields.values());
    fields.chain(schema.get("items")).filter_map(Bson::as_document)
}
