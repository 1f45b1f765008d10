//! A guard: a locked document as it was when it was locked, and the changes of its holder.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Bson;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::{Error, ErrorKind, LeaseHandle, Loss, ReadGuard, Result, Token, WriteGuard};

use crate::collection_locks::CollectionLocks;
use crate::holder::{Around, Holder};
use crate::name::Named;
use crate::request::{Act, Update};
use crate::typed::written;

/// A locked document or part. No other client that takes the lock changes it.
///
/// Dropping it releases the lock, and so does [`release`](Self::release), which also reports
/// whether it was still held. It derefs to a [`LeaseHandle`] with the token and the loss.
///
/// Each change is one command that the server carries out only while this ticket holds, by its own
/// clock. Otherwise it returns [`Lost`](tenure_core::ErrorKind::Lost), and nothing is changed. A
/// write whose answer is lost is sent again and made once. Concurrent changes through one guard are
/// made one after the other.
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct DocumentGuard<T, G = WriteGuard> {
    document: T,
    guard: G,
    holder: Holder,
}

/// A document or a part that is locked for reading. No client that takes the lock changes it
/// meanwhile.
pub type DocumentReader<T> = DocumentGuard<T, ReadGuard>;

/// The guards of both kinds of locks.
pub trait Hold {
    /// Returns a handle to the lease.
    fn hold(&self) -> LeaseHandle;

    /// Releases the lock.
    fn give_back(self) -> impl Future<Output = Result<()>> + Send;
}

impl Hold for ReadGuard {
    fn hold(&self) -> LeaseHandle {
        self.handle()
    }

    async fn give_back(self) -> Result<()> {
        self.release().await
    }
}

impl Hold for WriteGuard {
    fn hold(&self) -> LeaseHandle {
        self.handle()
    }

    async fn give_back(self) -> Result<()> {
        self.release().await
    }
}

impl<T> DocumentGuard<T, WriteGuard> {
    /// Returns the fencing token. A reader has none.
    pub fn token(&self) -> Token {
        self.guard.token()
    }
}

impl<T, G: Hold> DocumentGuard<T, G> {
    /// Returns the document or the part as it was when it was locked or refreshed.
    pub fn document(&self) -> &T {
        &self.document
    }

    /// Returns the `_id` of the document.
    pub fn id_of_document(&self) -> &Bson {
        &self.holder.named().id
    }

    /// Returns a handle for other tasks, which can neither change nor release anything. With
    /// [`Documents::hierarchical`](super::Documents::hierarchical) it is that of the part itself.
    pub fn held(&self) -> LeaseHandle {
        self.holder.own().clone()
    }

    /// Returns an error if any of the locks is not held any more. See [`LeaseHandle::check`].
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if any of the locks is not held any more.
    pub fn check(&self) -> Result<()> {
        self.holder.check()
    }

    /// Waits until any of the locks is lost, and returns why. The future does not borrow the guard,
    /// so another task may await it. See [`LeaseHandle::lost`].
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + Unpin + use<T, G> {
        self.holder.lost()
    }

    /// Runs work under the lock, and drops it when any of the locks is lost. See
    /// [`LeaseHandle::run`].
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if the work was dropped.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        self.holder.run(work).await
    }

    /// Renews all of the locks now. See [`LeaseHandle::extend`].
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if any of the locks is not held any more.
    pub async fn extend(&self) -> Result<()> {
        self.holder.extend().await
    }

    /// Returns how long all of the locks stay held without another renewal. See
    /// [`LeaseHandle::remaining`].
    pub fn remaining(&self) -> Option<Duration> {
        self.holder.all().filter_map(LeaseHandle::remaining).min()
    }

    /// Releases the lock. Returns `Lost` if it was not held until now. See [`WriteGuard::release`].
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if the lock was not held until now.
    pub async fn release(self) -> Result<()> {
        let released = self.guard.give_back().await;
        // Parts that are locked together share the locks around them; the last part releases these.
        match Arc::into_inner(self.holder.around) {
            Some(around) => {
                let outer = around.release().await;
                released.and(outer)
            }
            None => released,
        }
    }
}

impl<T: DeserializeOwned, G: Hold> DocumentGuard<T, G> {
    pub(crate) async fn open(
        collection: Arc<CollectionLocks>,
        named: Named,
        guard: G,
        around: Arc<Around>,
    ) -> Result<Self> {
        let holder = Holder::new(collection, named, guard.hold(), around);
        let document = holder.first().await?;
        Ok(Self { document, guard, holder })
    }

    /// Reads the document or the part again, while it is held.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if any of the locks is not held any more,
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the document cannot be read as its type, and
    /// [`Unavailable`](tenure_core::ErrorKind::Unavailable) if the server does not answer.
    pub async fn refresh(&mut self) -> Result<&T> {
        self.document = self.holder.read().await?;
        Ok(&self.document)
    }
}

impl<T> DocumentGuard<T> {
    /// Changes the document or the part, by operators or by a pipeline. Their names are those of
    /// the document, or of the part.
    ///
    /// [`document`](Self::document) stays as it was: see [`refresh`](Self::refresh). An [`Update`]
    /// has array filters, too.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if the lock is not held any more, and
    /// [`Rejected`](tenure_core::ErrorKind::Rejected) or
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the change is refused. Nothing is changed
    /// then. After [`Unavailable`](tenure_core::ErrorKind::Unavailable) the change may be made or
    /// not.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may be made or not.
    pub async fn update(&self, update: impl Into<Update>) -> Result<()> {
        self.holder.act(Act::Update(update.into())).await
    }

    /// Replaces the document or the part. The `_id` stays.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if the lock is not held any more, and
    /// [`Rejected`](tenure_core::ErrorKind::Rejected) or
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the change is refused. Nothing is changed
    /// then. After [`Unavailable`](tenure_core::ErrorKind::Unavailable) the change may be made or
    /// not.
    pub async fn replace(&mut self, document: T) -> Result<()>
    where
        T: Serialize,
    {
        let new = written(&document)?;
        self.holder.act(Act::Replace(new)).await?;
        self.document = document;
        Ok(())
    }

    /// Makes a last change and releases the lock in one command. Returns `Lost` if it was not held
    /// until then.
    ///
    /// A pipeline always takes one command, and operators do if no other ticket stands in the line
    /// of the whole document. Otherwise operators take one command more, and the lock is held until
    /// the change is made.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if the lock is not held any more, and
    /// [`Rejected`](tenure_core::ErrorKind::Rejected) or
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the change is refused. Nothing is changed
    /// then. After [`Unavailable`](tenure_core::ErrorKind::Unavailable) the change may be made or
    /// not.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may be made or not. The lock is released in any case.
    pub async fn release_with(self, update: impl Into<Update>) -> Result<()> {
        self.leave(Act::Leave(update.into())).await
    }

    /// The same as [`release_with`](Self::release_with). If the change is refused, no queue claims
    /// the document before this time is over.
    pub(crate) async fn release_with_or_put_off(
        self,
        update: Update,
        time: Duration,
    ) -> Result<()> {
        match self.holder.act(Act::Leave(update)).await {
            Ok(()) => self.after_last().await,
            Err(error) if matches!(error.kind(), ErrorKind::Rejected | ErrorKind::Invalid) => {
                let id = self.id_of_document().clone();
                tracing::warn!(%error, "queues pass over the document {id} for {time:?}, because its last change was refused");
                if let Err(error) = self.put_off(time).await {
                    tracing::warn!(%error, "the document {id} is not put off");
                }
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// The same as [`open`](Self::open). A document that cannot be read as its type is put off for
    /// this time: it would be the first again.
    pub(crate) async fn open_or_put_off(
        collection: Arc<CollectionLocks>,
        named: Named,
        guard: WriteGuard,
        time: Duration,
    ) -> Result<Self>
    where
        T: DeserializeOwned,
    {
        let holder = Holder::new(collection, named, guard.hold(), Arc::default());
        match holder.first().await {
            Ok(document) => Ok(Self { document, guard, holder }),
            Err(error) => {
                if error.kind() == ErrorKind::Invalid {
                    let unread = DocumentGuard { document: (), guard, holder };
                    let _ = unread.put_off(time).await; // otherwise the drop has released it
                }
                Err(error)
            }
        }
    }

    /// Releases the lock. No queue claims the document before this time is over.
    pub(crate) async fn put_off(self, time: Duration) -> Result<()> {
        self.leave(Act::PutOff(time)).await
    }

    /// Deletes the document, and the lock with it. Waiting clients get an error.
    ///
    /// A part is deleted by an update of what is around it.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if the lock is not held any more, and
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the guard is of a part. After
    /// [`Unavailable`](tenure_core::ErrorKind::Unavailable) the document may be deleted or not.
    pub async fn delete(self) -> Result<()> {
        if !self.holder.named().path.is_whole() {
            return Err(Error::invalid(
                "a part cannot be deleted by its own lock: lock the document, and update it",
            ));
        }
        self.leave(Act::Delete).await
    }

    /// Makes a last change under the lock. It stays made even if the lock is lost before the
    /// release.
    async fn leave(self, last: Act) -> Result<()> {
        self.holder.act(last).await?;
        self.after_last().await
    }

    /// Releases the lock after the last change was made.
    async fn after_last(self) -> Result<()> {
        match self.release().await {
            Err(error) if error.kind() == ErrorKind::Lost => Ok(()),
            released => released,
        }
    }
}

impl<T, G> Deref for DocumentGuard<T, G> {
    type Target = LeaseHandle;

    fn deref(&self) -> &LeaseHandle {
        self.holder.own()
    }
}

impl<T, G> fmt::Debug for DocumentGuard<T, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.holder.own(), f)
    }
}
