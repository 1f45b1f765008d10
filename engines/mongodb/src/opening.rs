//! Opening: whether a collection can keep locks at all, and what prevents it.

use mongodb::bson::{DateTime, Document, RawArrayBuf, bson, doc, rawdoc};
use tenure_core::{Error, Reason, Result};

use crate::answer::whole;
use crate::command::CommandSender;
use crate::line::raw;

/// Refuses a collection that cannot keep locks. Returns warnings of settings that may refuse a lock
/// later.
pub(crate) async fn check(commands: &CommandSender) -> Result<Vec<String>> {
    let name = commands.collection.as_str();
    let command = rawdoc! {
        "listCollections": 1, "filter": { "name": name }, "authorizedCollections": true,
    };
    match commands.ask(&commands.database, command).await {
        Ok(answer) => match described(&answer) {
            None => Ok(Vec::new()),
            Some(found) => {
                refuse(name, found)?;
                Ok(validated_records(commands, found).await?.into_iter().collect())
            }
        },
        Err(error) if error.is_retryable() || error.reason() == Some(Reason::LoginRequired) => {
            Err(error)
        }
        // A user who may not list collections gets the refusal from the first lock.
        Err(_) => Ok(vec![format!(
            "this user may not ask how the collection {name} was made: allow `listCollections`, or see that it is neither capped nor a view nor a time series, and has no validator"
        )]),
    }
}

fn described(answer: &Document) -> Option<&Document> {
    let batch = answer.get_document("cursor").ok()?.get_array("firstBatch").ok()?;
    batch.first()?.as_document()
}

/// Refuses a kind of collection whose documents cannot be changed, or are deleted by the server.
fn refuse(name: &str, found: &Document) -> Result<()> {
    let options = found.get_document("options").ok();
    let is_capped = options.and_then(|options| options.get_bool("capped").ok()).unwrap_or(false);
    let why = match found.get_str("type") {
        Ok("view") => "a view",
        Ok("timeseries") => "a time series, whose documents cannot be changed",
        _ if is_capped => "capped, and the server deletes its oldest records, though they are held",
        _ => return Ok(()),
    };
    Err(Error::rejected(format!(
        "the collection {name} cannot keep locks: it is {why}: take another collection"
    )))
}

/// Returns whether the server refuses documents that do not pass the validator.
fn is_strict(options: &Document) -> bool {
    let says = |name, word| options.get_str(name).is_ok_and(|it| it == word);
    !says("validationAction", "warn") && !says("validationLevel", "off")
}

/// Refuses a validator that records do not pass.
async fn validated_records(commands: &CommandSender, found: &Document) -> Result<Option<String>> {
    let Ok(options) = found.get_document("options") else { return Ok(None) };
    let Ok(validator) = options.get_document("validator") else { return Ok(None) };
    if !is_strict(options) {
        return Ok(None);
    }
    let (name, records) = (commands.collection.as_str(), records());
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
        "aggregate": name, "pipeline": pipeline, "cursor": {}, "maxTimeMS": commands.server_ms(),
    };
    let passed = match commands.ask(&commands.database, command).await {
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
        "_id": "v1.0", "key": "key", "of": 1_i64, "held": [], "waiting": [], "at": 0_i64, "next_expiry": 0_i64, "step": 1_i64,
        "notices": "", "did": [], "newly_served": 0_i64, "bytes": 100_i32, "reap": [date, true],
    };
    let seat = bson!({
        "id": "0", "n": 1_i64, "ends": 0_i64, "take": 1_i64, "told": false, "inbox": "0", "ttl_us": 1_i64, "owner": "", "note": "",
    });
    let (mut held, mut fresh) = (record.clone(), record);
    held.extend(doc! { "held": [seat], "last": 1_i64 });
    fresh.insert("made", "0");
    [held, fresh]
}
