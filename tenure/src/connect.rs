//! From a URL to the locks of a store.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use tenure_core::{Error, Locks, Memory, Result};

/// The locks of the store that this URL names.
///
/// | URL | store |
/// |---|---|
/// | `memory:` | a new one in this process, for tests |
/// | `memory:NAME` | the one of this name in this process |
/// | `file:PATH` | a directory, for the processes of one machine |
///
/// The URLs of a store, with their options, are in its engine's README.
#[allow(
    clippy::unused_async,
    reason = "stores with a server are waited for, and all have one way in"
)]
pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    let url = url.as_ref();
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(Error::invalid(format!(
            "a store's URL has a scheme, such as `file:` or `memory:`; write file:{} for a directory",
            if is_plain_path(url) { url } else { "PATH" }
        )));
    };
    match scheme {
        "memory" => memory(rest),
        #[cfg(feature = "file")]
        "file" => Ok(Locks::new(tenure_file::connect(url)?)),
        _ => Err(unknown(scheme)),
    }
}

/// What is certainly no password, and may stand in an error.
fn is_plain_path(text: &str) -> bool {
    !text.is_empty() && !text.contains('@')
}

fn memory(name: &str) -> Result<Locks> {
    static NAMED: LazyLock<Mutex<HashMap<String, Memory>>> = LazyLock::new(Mutex::default);
    if let Some((_, options)) = name.split_once('?') {
        return Err(Error::invalid(format!(
            "a memory store has no options, and was given `{options}`"
        )));
    }
    if name.is_empty() {
        return Ok(Locks::new(Memory::new()));
    }
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Locks::new(named.entry(name.to_owned()).or_default().clone()))
}

fn unknown(scheme: &str) -> Error {
    let known: &[&str] = &[
        "memory:",
        #[cfg(feature = "file")]
        "file:PATH",
    ];
    if scheme == "file" {
        return Error::unsupported(
            "this program was built without the file engine: build it with the feature `file`",
        );
    }
    Error::invalid(format!(
        "no engine answers to the scheme `{scheme}:`; there are {}",
        known.join(" and ")
    ))
}
