//! From a URL to the locks of a store.

use tenure_core::{Locks, Result};

use crate::registry::open;

/// The locks of the store that this URL names.
///
#[doc = include_str!("urls.md")]
///
/// The options of a URL stand behind a question mark: `redis://localhost?prefix=shop&timeout=1s`. They are in the README
/// of each engine, and in [`registry::REGISTER`](crate::registry::REGISTER).
pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    open(url.as_ref()).await.map(|opened| opened.locks)
}
