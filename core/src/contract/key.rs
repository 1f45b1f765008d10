//! The key of a line.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// Maximum length of a key, in bytes of UTF-8.
pub const KEY_BYTES_MAX: usize = 1024;

/// The name of a lock: any string of 1 to [`KEY_BYTES_MAX`] bytes.
///
/// Different strings are different locks on every engine: `a` and `a/b`, `Job` and `job`. NUL, `*`,
/// `{}` and quotes are ordinary characters.
///
/// ```
/// use tenure::Key;
///
/// let key = Key::new("invoices/42")?;
/// assert_eq!(key.as_str(), "invoices/42");
/// let refused = Key::new("").unwrap_err().to_string();
/// assert_eq!(refused, "a key must not be empty: name what is locked");
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Checks the length of the name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid): the name is empty or too long.
    pub fn new(name: impl AsRef<str>) -> Result<Self> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(Error::invalid("a key must not be empty: name what is locked"));
        }
        if name.len() > KEY_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a key of {} bytes is too long: at most {KEY_BYTES_MAX} bytes are allowed",
                name.len()
            )));
        }
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name in a form that is safe for every store: `v1.` and the SHA-256 of namespace, NUL and
    /// name in lower-case hex. Engines never put a user's name into a path, a pattern or a
    /// statement.
    pub fn canonical(&self, namespace: &str) -> String {
        let mut digits = [[0; 2]; 32];
        for (pair, byte) in digits.iter_mut().zip(self.hash_in(namespace)) {
            *pair = [byte >> 4, byte & 15].map(|value| b"0123456789abcdef"[usize::from(value)]);
        }
        ["v1.", str::from_utf8(digits.as_flattened()).expect("digits are ASCII")].concat()
    }

    /// The hash in [`canonical`](Key::canonical).
    pub fn hash_in(&self, namespace: &str) -> [u8; 32] {
        Sha256::new()
            .chain_update(namespace.as_bytes())
            .chain_update([0])
            .chain_update(self.0.as_bytes())
            .finalize()
            .into()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn an_empty_or_overlong_key_is_refused() {
        assert_eq!(Key::new("").unwrap_err().kind(), ErrorKind::Invalid);
        assert!(Key::new("x".repeat(KEY_BYTES_MAX)).is_ok());
        let error = Key::new("x".repeat(KEY_BYTES_MAX + 1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a key of 1025 bytes is too long: at most 1024 bytes are allowed"
        );
    }

    #[test]
    fn the_canonical_form_never_changes_between_versions() {
        assert_eq!(
            Key::new("job").unwrap().canonical("tenure"),
            "v1.c0d872708b7433ac9a12b1066b37d2ff40123d10191415eae1a86a9eec9bd5f0"
        );
    }

    #[test]
    fn namespace_and_name_do_not_run_together() {
        let ab = Key::new("b").unwrap().canonical("a");
        let a = Key::new("a").unwrap().canonical("");
        assert_ne!(ab, a);
    }
}
