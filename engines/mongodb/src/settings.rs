//! The settings of a store: its database and collection, and the time for one answer.

use std::ops::RangeInclusive;
use std::time::Duration;

use tenure_core::{Error, Result, TTL_DEFAULT};
use tenure_kit::options::Value;

const TIMES: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);
const DATABASE_BYTES_MAX: usize = 63;
/// MongoDB allows 255 bytes for both names and the dot between them.
const COLLECTION_BYTES_MAX: usize = 255 - DATABASE_BYTES_MAX - 1;

/// The settings of a store: the collection of the lines, and the time for one answer.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_mongodb::Settings;
///
/// let settings = Settings::new().database("shop")?.collection("locks")?;
/// let settings = settings.timeout(Duration::from_secs(1));
/// # drop(settings);
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Settings {
    /// `None` means the database of the URL, or `tenure`.
    pub(crate) database: Option<String>,
    /// `None` means `locks`.
    pub(crate) collection: Option<String>,
    pub(crate) timeout: Duration,
}

impl Settings {
    /// Creates the defaults: the collection `locks` of the URL's database, or of `tenure`, and 5 s
    /// for an answer.
    pub fn new() -> Self {
        Self { database: None, collection: None, timeout: TTL_DEFAULT / 6 }
    }

    /// Sets the database.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if MongoDB allows no database of this name.
    pub fn database(self, name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let bad = |letter: char| "/\\. \"$*<>:|?\0".contains(letter);
        if name.is_empty() || name.len() > DATABASE_BYTES_MAX || name.contains(bad) {
            return Err(Error::invalid(format!(
                "`database` takes the name of a database: 1 to {DATABASE_BYTES_MAX} bytes without blanks, dots, slashes, quotes and the signs $ * < > : | ?"
            )));
        }
        Ok(Self { database: Some(name), ..self })
    }

    /// Sets the collection, which is Tenure's own.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if MongoDB allows no collection of this name.
    pub fn collection(self, collection: impl Into<String>) -> Result<Self> {
        let collection = collection.into();
        let bad = |letter: char| "$\0".contains(letter);
        let is_wrong = collection.is_empty()
            || collection.len() > COLLECTION_BYTES_MAX
            || collection.contains(bad)
            || collection.starts_with("system.")
            || collection.starts_with('.')
            || collection.ends_with('.');
        if is_wrong {
            return Err(Error::invalid(format!(
                "`collection` takes the name of a collection: 1 to {COLLECTION_BYTES_MAX} bytes without the sign $, not of the system's, and with no dot at either end"
            )));
        }
        Ok(Self { collection: Some(collection), ..self })
    }

    /// Sets the time for one answer.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Returns whether a collection was named.
    #[doc(hidden)]
    pub fn names_collection(&self) -> bool {
        self.collection.is_some()
    }

    /// Sets an option of a URL.
    pub(crate) fn with(self, name: &str, value: Value) -> Result<Self> {
        match name {
            "database" => self.database(value.text()),
            "collection" => self.collection(value.text()),
            "timeout" => Ok(self.timeout(value.time(TIMES)?)),
            _ => unreachable!("`{name}` is an option of the engine's, and is not read"),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}
