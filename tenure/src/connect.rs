//! From a URL to the locks of a store.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use tenure_core::{Error, Locks, Memory, Result};

const REDIS: &[&str] =
    &["redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster", "redlock"];

/// The locks of the store that this URL names.
///
/// | URL | store |
/// |---|---|
/// | `memory:` | a new one in this process, for tests |
/// | `memory:NAME` | the one of this name in this process |
/// | `file:PATH` | a directory, for the processes of one machine |
/// | `redis://HOST`, `rediss://`, `redis+unix://` | a server of Redis or Valkey |
/// | `redis+sentinel://H1,H2,H3/SERVICE` | what sentinels call the master |
/// | `redis+cluster://H1,H2` | a cluster |
/// | `redlock://H1,H2,H3` | a majority of independent servers |
///
/// The URLs of a store, with their options, are in its engine's README.
#[cfg_attr(
    not(feature = "redis"),
    allow(
        clippy::unused_async,
        reason = "stores with a server are waited for, and all have one way in"
    )
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
        #[cfg(feature = "redis")]
        _ if REDIS.contains(&scheme) => tenure_redis::connect(url).await,
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
        #[cfg(feature = "redis")]
        "redis://HOST",
        #[cfg(feature = "redis")]
        "redlock://H1,H2,H3",
    ];
    let feature = match scheme {
        "file" => "file",
        _ if REDIS.contains(&scheme) => "redis",
        _ => {
            return Error::invalid(format!(
                "no engine answers to the scheme `{scheme}:`; there are {}",
                known.join(", ")
            ));
        }
    };
    Error::unsupported(format!(
        "this program was built without the {feature} engine: build it with the feature `{feature}`"
    ))
}
