//! A listing of keys that is not complete: some lines of the store cannot be read, and do not show
//! their keys.
//!
//! An engine returns it as an error, so that no program takes such a line for an empty one. Watches
//! go on with the keys that are known, and tools for people show them.

use std::error::Error as StdError;
use std::fmt;

use crate::{Error, Key, Result};

/// The keys that are known, as the cause of an error.
#[derive(Debug)]
struct KnownKeys(Vec<Key>);

impl fmt::Display for KnownKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "other keys that can be listed: {}", self.0.len())
    }
}

impl StdError for KnownKeys {}

/// Returns the error for a listing that lacks lines; `keys` are those that are known.
///
/// ```
/// use tenure::engine::incomplete;
/// use tenure::inspect::known_keys;
/// use tenure::{Error, Key};
///
/// let keys = vec![Key::new("a")?];
/// let listing = Err(incomplete(Error::rejected("a line cannot be read"), keys.clone()));
/// let (known, trouble) = known_keys(listing)?;
/// assert_eq!((known, trouble.is_some()), (keys, true));
/// # Ok::<(), Error>(())
/// ```
#[must_use]
pub fn incomplete(error: Error, keys: Vec<Key>) -> Error {
    error.caused_by(KnownKeys(keys))
}

/// Splits a listing into the known keys and the error of one that is not complete.
///
/// # Errors
///
/// Every other error of the listing.
pub fn known_keys(listing: Result<Vec<Key>>) -> Result<(Vec<Key>, Option<Error>)> {
    let error = match listing {
        Ok(keys) => return Ok((keys, None)),
        Err(error) => error,
    };
    match error.source().and_then(|cause| cause.downcast_ref::<KnownKeys>()) {
        Some(KnownKeys(keys)) => Ok((keys.clone(), Some(error.clone()))),
        None => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_keys_of_an_incomplete_listing_are_found_again() {
        let keys = vec![Key::new("a").unwrap()];
        let error = incomplete(Error::rejected("a line cannot be read"), keys.clone());
        let expected = "a line cannot be read";
        assert_eq!(error.to_string(), expected);
        let (known, trouble) = known_keys(Err(error)).unwrap();
        assert_eq!((known, trouble.map(|one| one.to_string())), (keys, Some(expected.into())));
        assert!(known_keys(Err(Error::unavailable("silent"))).is_err());
        assert!(known_keys(Ok(Vec::new())).unwrap().1.is_none());
    }
}
