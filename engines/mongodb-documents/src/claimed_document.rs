//! A claimed document: what a worker of a queue does with it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use tenure_core::Result;

use crate::guard::DocumentGuard;
use crate::request::Update;

/// Time for which no worker claims a document after the change of its `done` was refused.
const REFUSED_REST: Duration = Duration::from_secs(60);

/// A claimed document, with the methods of its [`DocumentGuard`]. Dropping it releases the document
/// for the next worker.
#[must_use = "the document is released as soon as its job is dropped"]
pub struct ClaimedDocument<T>(DocumentGuard<T>);

impl<T> ClaimedDocument<T> {
    pub(crate) fn new(guard: DocumentGuard<T>) -> Self {
        Self(guard)
    }

    /// Changes the document so that it matches no more, and releases it in the same step.
    ///
    /// If the server refuses the change, no queue claims the document for a minute: it would be the
    /// next one again.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if the document is not held any more, and
    /// [`Rejected`](tenure_core::ErrorKind::Rejected) or
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the change is refused. The document is not
    /// changed then. After [`Unavailable`](tenure_core::ErrorKind::Unavailable) it may be changed.
    pub async fn done(self, update: impl Into<Update>) -> Result<()> {
        self.0.release_with_or_put_off(update.into(), REFUSED_REST).await
    }

    /// Deletes the document, if it is still held.
    ///
    /// # Errors
    ///
    /// As [`DocumentGuard::delete`].
    pub async fn delete(self) -> Result<()> {
        self.0.delete().await
    }

    /// Releases the document. No queue claims it before this time is over, by the server's clock.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if the document is not held any more.
    pub async fn retry_later(self, time: Duration) -> Result<()> {
        self.0.put_off(time).await
    }

    /// Releases the document as it is, for the next worker. Returns `Lost` if it was not held until
    /// now.
    ///
    /// # Errors
    ///
    /// As [`DocumentGuard::release`].
    pub async fn release(self) -> Result<()> {
        self.0.release().await
    }

    /// Returns the guard of the document, for code that also locks documents by name.
    pub fn into_guard(self) -> DocumentGuard<T> {
        self.0
    }
}

impl<T> Deref for ClaimedDocument<T> {
    type Target = DocumentGuard<T>;

    fn deref(&self) -> &DocumentGuard<T> {
        &self.0
    }
}

impl<T> DerefMut for ClaimedDocument<T> {
    fn deref_mut(&mut self) -> &mut DocumentGuard<T> {
        &mut self.0
    }
}

impl<T> fmt::Debug for ClaimedDocument<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
