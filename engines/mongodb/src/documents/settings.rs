//! On what terms documents are locked, and how their collection is opened.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Bson, Document, serialize_to_document};
use mongodb::{Client, Collection};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::{Error, Result, TTL_DEFAULT};
use tokio::runtime::Handle;

use super::lock::DocumentLocks;
use super::shelf::Shelf;
use crate::connect;
use crate::name::Name;
use crate::settings::Settings;
use crate::url;
use crate::wish::Reads;

/// The field of a document or a part that has its lock, if nobody names another.
pub const FIELD_DEFAULT: &str = "_tenure";

/// How documents are locked: in which field, what is read with a lock, and what is done where there is no document.
///
/// ```
/// use tenure_mongodb::documents::Documents;
///
/// let settings = Documents::new().field("_lock")?.only(["state", "total"]).together();
/// # drop(settings);
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Documents {
    pub(super) field: String,
    pub(super) reads: Reads,
    pub(super) filling: Option<Document>,
    pub(super) together: bool,
    pub(super) timeout: Duration,
}

impl Documents {
    /// Locks are in the field `_tenure`, a lock reads the whole document or part, a document that is not there is an
    /// error, and parts lock independently of the whole.
    pub fn new() -> Self {
        Self {
            field: FIELD_DEFAULT.to_owned(),
            reads: Reads::Everything,
            filling: None,
            together: false,
            timeout: TTL_DEFAULT / 6,
        }
    }

    /// The same with locks in this field. Whoever locks the same documents names the same field.
    pub fn field(self, name: impl Into<String>) -> Result<Self> {
        let field = name.into();
        let is_odd = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
        if field.is_empty() || field.len() > 64 || field.contains(is_odd) || field == "_id" {
            return Err(Error::invalid(format!(
                "`{field}` cannot be the field that has the locks: take letters, digits and underscores, and not _id"
            )));
        }
        Ok(Self { field, ..self })
    }

    /// The same, and a lock reads these fields only: of the document, or of the part. The type that is read has no others.
    pub fn only<I: IntoIterator<Item: Into<String>>>(self, fields: I) -> Self {
        let fields: Arc<[String]> = fields.into_iter().map(Into::into).collect();
        Self { reads: Reads::Fields(fields), ..self }
    }

    /// The same, and whoever locks a document that is not there inserts this one, with the `_id` that was asked for.
    pub fn or_insert<T: Serialize>(self, document: &T) -> Result<Self> {
        Ok(Self { filling: Some(written(document)?), ..self })
    }

    /// The same, and a lock on a whole excludes the locks on its parts: whoever locks a part also reads what is around
    /// it, and whoever locks a whole writes it. All who lock the same documents must say so.
    pub fn together(self) -> Self {
        Self { together: true, ..self }
    }

    /// The same with this time for one answer.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The locks on the documents of this collection, over its own client.
    ///
    /// The client's connections are driven by the runtime that this is called in, which must be the one that the client
    /// was made in: while that is blocked, no lock is renewed, and the guarantees say so. [`connect`](Self::connect)
    /// has no such limit.
    pub async fn over<T: Send + Sync>(
        self,
        collection: &Collection<T>,
    ) -> Result<DocumentLocks<T>> {
        let namespace = collection.namespace();
        let settings = Settings::new().database(namespace.db)?.collection(namespace.coll)?;
        let (client, name) = (collection.client().clone(), Name::unknown());
        self.open(client, name, Some(Handle::current()), settings).await
    }

    /// The locks on the documents of a collection, with connections of their own. The URL names the database, and the
    /// collection as `collection=…`.
    pub async fn connect<T: Send + Sync>(self, url: impl AsRef<str>) -> Result<DocumentLocks<T>> {
        let (options, settings) = url::read(url.as_ref()).await?;
        let timeout = self.timeout;
        let shelf = Shelf::connect(self, settings.timeout(timeout), move |timeout| {
            connect::client(options, timeout)
        });
        Ok(DocumentLocks::new(shelf.await?))
    }

    async fn open<T: Send + Sync>(
        self,
        client: Client,
        name: Name,
        home: Option<Handle>,
        settings: Settings,
    ) -> Result<DocumentLocks<T>> {
        let settings = settings.timeout(self.timeout);
        let shelf = Shelf::over(self, client, name, home, settings);
        Ok(DocumentLocks::new(shelf.await?))
    }
}

impl Default for Documents {
    fn default() -> Self {
        Self::new()
    }
}

/// A user's value as a document, without an `_id`.
pub(super) fn written<T: Serialize + ?Sized>(document: &T) -> Result<Document> {
    serialize_to_document(document).map_err(|error| {
        Error::invalid(format!("the value is no document that MongoDB can keep: {error}"))
            .caused_by(error)
    })
}

/// A document as the user's type, without the locks of the parts in it.
pub(super) fn read<T: DeserializeOwned>(
    mut document: Document,
    id: &Bson,
    field: &str,
) -> Result<T> {
    strip(&mut document, field);
    mongodb::bson::deserialize_from_document(document).map_err(|error| {
        Error::invalid(format!("the document {id} is not what its type says: {error}"))
            .caused_by(error)
    })
}

/// Takes out the field with the locks, wherever it is.
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
