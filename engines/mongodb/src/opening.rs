//! Opening: whether a collection can keep locks at all, and what prevents it.

use mongodb::bson::{Document, rawdoc};
use tenure_core::{Error, Reason, Result};

use crate::command::CommandSender;

/// Refuses a collection that cannot keep locks. Returns a warning if that cannot be checked.
pub(crate) async fn check(commands: &CommandSender) -> Result<Option<String>> {
    let name = commands.collection.as_str();
    let command = rawdoc! {
        "listCollections": 1, "filter": { "name": name }, "authorizedCollections": true,
    };
    match commands.list(command).await {
        Ok(found) => found.first().map_or(Ok(()), |found| refuse(name, found)).map(|()| None),
        Err(error) if error.is_retryable() || error.reason() == Some(Reason::LoginRequired) => {
            Err(error)
        }
        // A user who may not list collections gets the refusal from the first lock.
        Err(_) => Ok(Some(format!(
            "this user may not ask how the collection {name} was made: allow `listCollections`, or see that it is neither capped nor a view nor a time series, and has no validator"
        ))),
    }
}

/// Refuses a kind of collection whose documents cannot be changed, or are deleted by the server.
fn refuse(name: &str, found: &Document) -> Result<()> {
    let options = found.get_document("options");
    let is_capped = options.and_then(|options| options.get_bool("capped")).unwrap_or(false);
    let why = match found.get_str("type") {
        Ok("view") => "a view",
        Ok("timeseries") => "a time series, whose documents cannot be changed",
        _ if is_capped => {
            "capped, and the server deletes its oldest documents, though they are held"
        }
        _ => return Ok(()),
    };
    Err(Error::rejected(format!(
        "the collection {name} cannot keep locks: it is {why}: take another collection"
    )))
}
