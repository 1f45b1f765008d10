//! The settings of locks on documents.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Document;
use serde::Serialize;
use tenure_core::{Error, Result};
use tenure_mongodb::Settings;
use tenure_mongodb::extension::Reads;

use crate::typed::written;

/// The field of a document or a part that has its lock, unless [`Documents::field`] names another.
pub const FIELD_DEFAULT: &str = "_tenure";

/// The settings of locks on documents: the field of the locks, the fields that a lock reads, and
/// the document that a lock inserts if there is none.
///
/// ```
/// use tenure_mongodb_documents::Documents;
///
/// let settings = Documents::new().field("_lock")?.only(["state", "total"])?.hierarchical();
/// # drop(settings);
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Documents {
    pub(crate) field: String,
    pub(crate) reads: Reads,
    pub(crate) filling: Option<Document>,
    pub(crate) hierarchical: bool,
    /// `None` means that of the URL, or 5 s.
    pub(crate) timeout: Option<Duration>,
}

impl Documents {
    /// Creates the defaults: locks are in the field `_tenure`, a lock reads the whole document or
    /// part, a missing document is an error, and parts lock independently of the whole.
    pub fn new() -> Self {
        Self {
            field: FIELD_DEFAULT.to_owned(),
            reads: Reads::Everything,
            filling: None,
            hierarchical: false,
            timeout: None,
        }
    }

    /// Sets the field of the locks. All clients that lock the same documents must name the same
    /// field.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the name is not 1 to 64 letters, digits and
    /// underscores, or is `_id`.
    pub fn field(self, name: impl Into<String>) -> Result<Self> {
        let field = name.into();
        let is_odd = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
        if field.is_empty() || field.len() > 64 || field.contains(is_odd) || field == "_id" {
            return Err(Error::invalid(format!(
                "`{field}` cannot be the field that has the locks: take letters, digits and underscores, and not _id"
            )));
        }
        Self { field, ..self }.checked()
    }

    /// Limits the fields that a lock reads, of the document or of the part. The type that is read
    /// has no others.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if a name has dots or is that of the locks'
    /// field.
    pub fn only<I: IntoIterator<Item: Into<String>>>(self, fields: I) -> Result<Self> {
        let fields: Arc<[String]> = fields.into_iter().map(Into::into).collect();
        let is_odd =
            |name: &&String| name.is_empty() || name.contains(['.', '\0']) || name.starts_with('$');
        if let Some(name) = fields.iter().find(is_odd) {
            return Err(Error::invalid(format!(
                "`{name}` cannot be read alone: `only` takes names of fields without dots; name the field around it"
            )));
        }
        Self { reads: Reads::Fields(fields), ..self }.checked()
    }

    /// Sets the document that a lock inserts if there is none with its `_id`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the value cannot be a document.
    pub fn or_insert<T: Serialize>(self, document: &T) -> Result<Self> {
        Ok(Self { filling: Some(written(document)?), ..self })
    }

    /// Makes a lock on a whole exclude the locks on its parts. A lock on a part then takes read
    /// locks on all that contains it. All clients that lock the same documents must use this.
    pub fn hierarchical(self) -> Self {
        Self { hierarchical: true, ..self }
    }

    /// Sets the time for one answer. It overrides that of a URL.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Returns an error if the fields that are read include the locks.
    fn checked(self) -> Result<Self> {
        match &self.reads {
            Reads::Fields(fields) if fields.contains(&self.field) => Err(Error::invalid(format!(
                "`{}` cannot be read: the field has the locks themselves",
                self.field
            ))),
            _ => Ok(self),
        }
    }

    /// Returns the settings of a URL with the timeout of these. The URL must name the collection:
    /// the default is that of named locks.
    pub(crate) fn settings_of_url(&self, settings: Settings) -> Result<Settings> {
        if !settings.names_collection() {
            return Err(Error::invalid(
                "the URL does not name the collection whose documents are locked: add `collection=NAME`",
            ));
        }
        Ok(self.spoken(settings))
    }

    /// Returns the settings with the timeout of these.
    pub(crate) fn spoken(&self, settings: Settings) -> Settings {
        match self.timeout {
            Some(timeout) => settings.timeout(timeout),
            None => settings,
        }
    }
}

impl Default for Documents {
    fn default() -> Self {
        Self::new()
    }
}
