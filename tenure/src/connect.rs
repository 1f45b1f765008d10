//! From a URL to the locks of a store.

use tenure_core::{Locks, Result};

use crate::registry::open;

/// Connects to the store of a URL, and returns its locks.
///
#[doc = include_str!("urls.md")]
///
/// Options follow a question mark: `redis://localhost?prefix=shop&timeout=1s`. The README of each
/// engine lists them.
///
/// # Errors
///
/// `Invalid` if the URL is malformed, `Unsupported` if the feature of its engine is not enabled,
/// `Rejected` if the store refuses, `Unavailable` if it does not answer.
pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    open(url.as_ref()).await.map(|opened| opened.locks)
}
