//! What is said of a key that this version of Tenure cannot read, and the way out.

use tenure_core::{Error, Key};

/// An error with the way out, if it is about what a key keeps.
pub(crate) fn in_key(error: Error, name: &str, key: &Key) -> Error {
    let words = error.to_string();
    let way = if words.starts_with("a ticket in the line cannot be read") {
        "have it deleted once nobody holds the lock"
    } else if words.starts_with("a number that was kept is none") {
        "write a number into it that is above all that were given"
    } else {
        return error;
    };
    Error::rejected(format!(
        "{words}: this is about {key:?}, which the server keeps as {name}; {way}"
    ))
}
