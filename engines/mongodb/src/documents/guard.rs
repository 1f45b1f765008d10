//! A guard: a document that is locked, as it was at the moment of locking, and what its holder may do with it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Bson;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::{Error, ErrorKind, Guard, LeaseHandle, Loss, Result, WriteGuard};

use super::holder::{Around, Holder};
use super::name::Named;
use super::request::{Act, Update};
use super::shelf::Shelf;
use super::typed::written;

/// A document or a part that is locked: nobody else who takes the lock changes it.
///
/// Dropping it gives the lock back, and so does [`release`](Self::release), which also says whether it was still held.
/// It is a [`LeaseHandle`], too, with its token, its loss, and all else.
///
/// Each change is one command that the server carries out only while this ticket holds, by its own clock; otherwise it is
/// refused as [`Lost`](tenure_core::ErrorKind::Lost), and nothing is changed. A write whose answer is lost is sent again and
/// made once. Changes that one guard is asked for at the same time are made one after the other.
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct DocumentGuard<T, G = WriteGuard> {
    document: T,
    guard: G,
    holder: Holder,
}

/// A document or a part that is locked for reading: nobody who takes the lock changes it meanwhile.
pub type DocumentReader<T> = DocumentGuard<T, Guard>;

/// What both kinds of locks give.
pub trait Hold {
    /// What it is.
    fn hold(&self) -> LeaseHandle;

    /// Gives it back.
    fn give_back(self) -> impl Future<Output = Result<()>> + Send;
}

impl Hold for Guard {
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

impl<T, G: Hold> DocumentGuard<T, G> {
    /// The document or the part as it was when it was locked, or refreshed.
    pub fn document(&self) -> &T {
        &self.document
    }

    /// The `_id` of the document.
    pub fn id_of_document(&self) -> &Bson {
        &self.holder.named().id
    }

    /// A view of the hold that can be cloned and handed to others, without the right to change or release anything. Of
    /// locks that are taken together it is the innermost.
    pub fn held(&self) -> LeaseHandle {
        self.holder.own().clone()
    }

    /// Whether all of it is still held. See [`LeaseHandle::check`].
    pub fn check(&self) -> Result<()> {
        self.holder.check()
    }

    /// Returns when any of it is lost, and says why. The future does not borrow the guard, so that another task may await
    /// it. See [`LeaseHandle::lost`].
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + Unpin + use<T, G> {
        self.holder.lost()
    }

    /// Works under the lock: the work is dropped the moment any of it is lost. See [`LeaseHandle::run`].
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        self.holder.run(work).await
    }

    /// Renews all of it now. See [`LeaseHandle::extend`].
    pub async fn extend(&self) -> Result<()> {
        self.holder.extend().await
    }

    /// How long all of it can be relied on if no renewal came through any more. See [`LeaseHandle::remaining`].
    pub fn remaining(&self) -> Option<Duration> {
        self.holder.all().filter_map(LeaseHandle::remaining).min()
    }

    /// Gives the lock back, and says whether it was held until now. See [`Guard::release`].
    pub async fn release(self) -> Result<()> {
        let released = self.guard.give_back().await;
        // A part that is locked together with others leaves to the last of them what is around it.
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
    pub(super) async fn open(
        shelf: Arc<Shelf>,
        named: Named,
        guard: G,
        around: Arc<Around>,
    ) -> Result<Self> {
        let holder = Holder::new(shelf, named, guard.hold(), around);
        let document = holder.first().await?;
        Ok(Self { document, guard, holder })
    }

    /// Reads the document or the part again, while it is held.
    pub async fn refresh(&mut self) -> Result<&T> {
        self.document = self.holder.read().await?;
        Ok(&self.document)
    }
}

impl<T> DocumentGuard<T> {
    /// Changes the document or the part, by operators or by a pipeline. Their names are those of the document, or of the
    /// part.
    ///
    /// What [`document`](Self::document) shows stays as it was: see [`refresh`](Self::refresh). An [`Update`] has array
    /// filters, too.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may be made or not.
    pub async fn update(&self, update: impl Into<Update>) -> Result<()> {
        self.holder.act(Act::Update(update.into())).await
    }

    /// Puts another document or part in its place, with the same `_id`.
    pub async fn replace(&mut self, document: T) -> Result<()>
    where
        T: Serialize,
    {
        let new = written(&document)?;
        self.holder.act(Act::Replace(new)).await?;
        self.document = document;
        Ok(())
    }

    /// Gives the lock back together with a last change, in one command, and says whether it was held until then.
    ///
    /// A pipeline does so always, and operators if nobody else stands in the line of the whole document. Otherwise
    /// operators take one command more, and the lock is held until the change is made.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may be made or not. The lock is given back in any case.
    pub async fn release_with(self, update: impl Into<Update>) -> Result<()> {
        self.leave(Act::Leave(update.into())).await
    }

    /// The same as [`release_with`](Self::release_with). If the change is refused, no queue claims the document before
    /// this time is over.
    pub(super) async fn release_with_or_put_off(
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

    /// The same as [`open`](Self::open). A document that is not what its type says is put off for this time: it would be the
    /// first again.
    pub(super) async fn open_or_put_off(
        shelf: Arc<Shelf>,
        named: Named,
        guard: WriteGuard,
        time: Duration,
    ) -> Result<Self>
    where
        T: DeserializeOwned,
    {
        let holder = Holder::new(shelf, named, guard.hold(), Arc::default());
        match holder.first().await {
            Ok(document) => Ok(Self { document, guard, holder }),
            Err(error) => {
                if error.kind() == ErrorKind::Invalid {
                    let unread = DocumentGuard { document: (), guard, holder };
                    // A document that is not put off is given back.
                    let _put_off = unread.put_off(time).await;
                }
                Err(error)
            }
        }
    }

    /// Gives the lock back, and no queue claims the document before this time is over.
    pub(super) async fn put_off(self, time: Duration) -> Result<()> {
        self.leave(Act::PutOff(time)).await
    }

    /// Deletes the document, and the lock with it. Whoever waits for it is told.
    ///
    /// A part is deleted by an update of what is around it.
    pub async fn delete(self) -> Result<()> {
        if !self.holder.named().path.is_whole() {
            return Err(Error::invalid(
                "a part cannot be deleted by its own lock: lock the document, and update it",
            ));
        }
        self.leave(Act::Delete).await
    }

    /// Does something last. It was done while the lock was held, whatever becomes of the lock before it is given back.
    async fn leave(self, last: Act) -> Result<()> {
        self.holder.act(last).await?;
        self.after_last().await
    }

    /// Gives the lock back after the last change, which was made.
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
