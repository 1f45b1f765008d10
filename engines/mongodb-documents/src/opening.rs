//! Opening: whether the documents of a collection can be locked at all, and what prevents it.

use mongodb::bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use tenure_core::{Error, Reason, Result};
use tenure_mongodb::extension::{CommandSender, raw};

/// Number of documents in which the field of the locks is checked.
const SAMPLE: i32 = 16;

/// Refuses a collection whose documents cannot be locked. Returns warnings of settings that may
/// refuse a lock later.
pub(crate) async fn check(commands: &CommandSender, field: &str) -> Result<Vec<String>> {
    let name = commands.collection.as_str();
    let command = rawdoc! {
        "listCollections": 1, "filter": { "name": name }, "authorizedCollections": true,
    };
    let mut warnings = Vec::new();
    match commands.ask(&commands.database, command).await {
        Ok(answer) => {
            if let Some(found) = described(&answer) {
                refuse(name, found)?;
                warnings.extend(validated(name, field, found)?);
            }
        }
        Err(error) if error.is_retryable() || error.reason() == Some(Reason::LoginRequired) => {
            return Err(error);
        }
        // A user who may not list collections gets the refusal from the first lock.
        Err(_) => warnings.push(format!(
            "this user may not ask how the collection {name} was made: allow `listCollections`, or see that it is neither capped nor a view nor a time series, and that its validator allows the field `{field}`"
        )),
    }
    refuse_foreign(commands, field).await?;
    Ok(warnings)
}

/// Refuses a field in which documents have something other than a lock.
async fn refuse_foreign(commands: &CommandSender, field: &str) -> Result<()> {
    let name = commands.collection.as_str();
    let sample = rawdoc! {
        "aggregate": name,
        "pipeline": [{ "$limit": SAMPLE }, { "$match": foreign(field) }, { "$limit": 1 }, { "$project": { "_id": 1 } }],
        "cursor": {},
        "maxTimeMS": commands.server_ms(),
    };
    match commands.ask(&commands.database, sample).await {
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

/// Refuses a kind of collection whose documents cannot be changed.
fn refuse(name: &str, found: &Document) -> Result<()> {
    let options = found.get_document("options").ok();
    let is_capped = options.and_then(|options| options.get_bool("capped").ok()).unwrap_or(false);
    let why = match found.get_str("type") {
        Ok("view") => "a view: lock the documents of the collection behind it",
        Ok("timeseries") => {
            "a time series, whose documents cannot be changed: lock the documents of another collection"
        }
        _ if is_capped => {
            "capped, and a document in a capped collection cannot grow: take another collection"
        }
        _ => return Ok(()),
    };
    Err(Error::rejected(format!("documents of {name} cannot be locked: it is {why}")))
}

/// Returns whether the server refuses documents that do not pass the validator.
fn is_strict(options: &Document) -> bool {
    let says = |name, word| options.get_str(name).is_ok_and(|it| it == word);
    !says("validationAction", "warn") && !says("validationLevel", "off")
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
