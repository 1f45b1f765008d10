//! Documents as values of the user's own types, which have no field for locks.

use mongodb::bson::{Bson, Document, serialize_to_document};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::{Error, Result};

/// Returns a user's value as a document, without an `_id`.
pub(crate) fn written<T: Serialize + ?Sized>(document: &T) -> Result<Document> {
    serialize_to_document(document).map_err(|error| {
        let why = reason(&error);
        Error::invalid(format!("the value is no document that MongoDB can keep: {why}"))
            .caused_by(error)
    })
}

/// Returns a document as the user's type, without the locks of the parts in it.
pub(crate) fn read<T: DeserializeOwned>(
    mut document: Document,
    id: &Bson,
    field: &str,
) -> Result<T> {
    strip(&mut document, field);
    mongodb::bson::deserialize_from_document(document).map_err(|error| {
        let why = reason(&error);
        Error::invalid(format!("the document {id} is not what its type says: {why}"))
            .caused_by(error)
    })
}

/// Returns the reason in the error, without the words that the driver puts around it.
fn reason(error: &mongodb::bson::error::Error) -> String {
    error.message.clone().unwrap_or_else(|| error.kind.to_string())
}

/// Removes the field with the locks, at every depth.
fn strip(document: &mut Document, field: &str) {
    document.remove(field);
    document.iter_mut().for_each(|(_, value)| strip_inside(value, field));
}

fn strip_inside(value: &mut Bson, field: &str) {
    match value {
        Bson::Document(document) => strip(document, field),
        Bson::Array(array) => array.iter_mut().for_each(|value| strip_inside(value, field)),
        _ => {}
    }
}
