//! A guard: a document that is locked, as it was at the moment of locking, and what its holder may do with it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::{FutureExt as _, select_all};
use mongodb::bson::{Bson, Document};
use mongodb::options::UpdateModifications;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::{Error, Guard, Held, Loss, Result, WriteGuard};

use super::name::Named;
use super::request::{Act, Done, Holding};
use super::shelf::Shelf;
use super::typed::{read, written};

/// A document or a part that is locked: nobody else who takes the lock changes it.
///
/// Dropping it gives the lock back, and so does [`release`](Self::release), which also says whether it was still held.
/// It is a [`Held`], too, with its token, its loss, and all else.
///
/// Each change is one command that the server carries out only while this ticket holds, by its own clock; otherwise it is
/// refused as [`Lost`](tenure_core::Kind::Lost), and nothing is changed. A write whose answer is lost is sent again and
/// made once.
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct DocumentGuard<T> {
    document: T,
    guard: WriteGuard,
    holder: Holder,
}

/// A document or a part that is locked for reading: nobody who takes the lock changes it meanwhile.
#[must_use = "the lock is released as soon as its guard is dropped"]
pub struct DocumentReader<T> {
    document: T,
    guard: Guard,
    holder: Holder,
}

/// What both have.
struct Holder {
    shelf: Arc<Shelf>,
    holding: Holding,
    around: Vec<Guard>,
    /// How many writes were begun.
    writes: AtomicI64,
}

impl Holder {
    fn new(shelf: Arc<Shelf>, named: Named, held: &Held, around: Vec<(Named, Guard)>) -> Self {
        let ids = around.iter().map(|(named, guard)| (named.clone(), guard.id())).collect();
        let holding = Holding { named, id: held.id(), around: ids };
        let around = around.into_iter().map(|(_, guard)| guard).collect();
        Self { shelf, holding, around, writes: AtomicI64::new(0) }
    }

    /// What was read with the lock. Who had to wait for it reads now.
    async fn first<T: DeserializeOwned>(&self, held: &Held) -> Result<T> {
        match self.shelf.home.was_read(held.id()) {
            Some(document) => self.typed(document),
            None => self.read(held).await,
        }
    }

    async fn read<T: DeserializeOwned>(&self, held: &Held) -> Result<T> {
        self.check(held)?;
        let (holding, reads) = (self.holding.clone(), self.shelf.settings.reads.clone());
        let found = self.shelf.home.read(holding, reads).await?;
        match found {
            Some(document) => self.typed(document),
            None => Err(self.refused(held).await),
        }
    }

    fn typed<T: DeserializeOwned>(&self, document: Document) -> Result<T> {
        read(document, &self.holding.named.id, &self.shelf.settings.field)
    }

    fn check(&self, held: &Held) -> Result<()> {
        self.around.iter().try_for_each(|guard| guard.check())?;
        held.check()
    }

    /// The lock and all locks around it.
    fn all<'a>(&'a self, held: &'a Held) -> impl Iterator<Item = &'a Held> {
        self.around.iter().map(|guard| &**guard).chain([held])
    }

    async fn lost(&self, held: &Held) -> Loss {
        let all: Vec<_> = self.all(held).map(|held| held.lost().boxed()).collect();
        select_all(all).await.0
    }

    /// Why the server did not carry something out: the store tells what became of the lock.
    async fn refused(&self, held: &Held) -> Error {
        for one in self.all(held) {
            if let Err(error) = one.extend().await {
                return error;
            }
        }
        Error::lost(Loss::Broken)
    }

    /// Has something done, while it is held.
    async fn act(&self, held: &Held, act: Act) -> Result<()> {
        self.check(held)?;
        let count = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        match self.shelf.home.act(self.holding.clone(), count, act).await? {
            Done::Yes => Ok(()),
            Done::No => Err(self.refused(held).await),
        }
    }
}

impl<T> DocumentGuard<T> {
    /// The document or the part as it was when it was locked, or refreshed.
    pub fn document(&self) -> &T {
        &self.document
    }

    /// The `_id` of the document.
    pub fn id_of_document(&self) -> &Bson {
        &self.holder.holding.named.id
    }

    /// A view of the hold that can be cloned and handed to others, without the right to change or release anything. Of
    /// locks that are taken together it is the innermost.
    pub fn held(&self) -> Held {
        self.guard.held()
    }

    /// Whether all of it is still held. See [`Held::check`].
    pub fn check(&self) -> Result<()> {
        self.holder.check(&self.guard)
    }

    /// Returns when any of it is lost, and says why. See [`Held::lost`].
    pub async fn lost(&self) -> Loss {
        self.holder.lost(&self.guard).await
    }

    /// Changes the document or the part, by operators or by a pipeline. Their names are those of the document, or of the
    /// part.
    ///
    /// What [`document`](Self::document) shows stays as it was: see [`refresh`](Self::refresh).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may be made or not.
    pub async fn update(&self, update: impl Into<UpdateModifications>) -> Result<()> {
        self.holder.act(&self.guard, Act::Update(update.into())).await
    }

    /// Puts another document or part in its place, with the same `_id`.
    pub async fn replace(&mut self, document: T) -> Result<()>
    where
        T: Serialize,
    {
        let new = written(&document)?;
        self.holder.act(&self.guard, Act::Replace(new)).await?;
        self.document = document;
        Ok(())
    }

    /// Gives the lock back, and says whether it was held until now. See [`Guard::release`].
    pub async fn release(self) -> Result<()> {
        let released = self.guard.release().await;
        for guard in self.holder.around.into_iter().rev() {
            released.clone().and(guard.release().await)?;
        }
        released
    }

    /// Gives the lock back together with a last change, in one command, and says whether it was held until then.
    ///
    /// A pipeline does so always, and operators if nobody else stands in the line of the whole document. Otherwise
    /// operators take one command more, and the lock is held until the change is made.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the change may be made or not. The lock is given back in any case.
    pub async fn release_with(self, update: impl Into<UpdateModifications>) -> Result<()> {
        self.holder.act(&self.guard, Act::Leave(update.into())).await?;
        self.release().await
    }

    /// Gives the lock back, and nobody claims the document before this time is over.
    pub(super) async fn put_off(self, time: Duration) -> Result<()> {
        self.holder.act(&self.guard, Act::PutOff(time)).await?;
        self.release().await
    }

    /// Deletes the document, and the lock with it. Whoever waits for it is told.
    ///
    /// A part is deleted by an update of what is around it.
    pub async fn delete(self) -> Result<()> {
        if !self.holder.holding.named.path.is_whole() {
            return Err(Error::invalid(
                "a part cannot be deleted by its own lock: lock the document, and update it",
            ));
        }
        self.holder.act(&self.guard, Act::Delete).await?;
        self.release().await
    }
}

impl<T: DeserializeOwned> DocumentGuard<T> {
    pub(super) async fn open(
        shelf: Arc<Shelf>,
        named: Named,
        guard: WriteGuard,
        around: Vec<(Named, Guard)>,
    ) -> Result<Self> {
        let holder = Holder::new(shelf, named, &guard, around);
        let document = holder.first(&guard).await?;
        Ok(Self { document, guard, holder })
    }

    /// Reads the document or the part again, while it is held.
    pub async fn refresh(&mut self) -> Result<&T> {
        self.document = self.holder.read(&self.guard).await?;
        Ok(&self.document)
    }
}

impl<T> Deref for DocumentGuard<T> {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.guard
    }
}

impl<T> fmt::Debug for DocumentGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.guard, f)
    }
}

impl<T> DocumentReader<T> {
    /// The document or the part as it was when it was locked, or refreshed.
    pub fn document(&self) -> &T {
        &self.document
    }

    /// Gives the lock back, and says whether it was held until now. See [`Guard::release`].
    pub async fn release(self) -> Result<()> {
        let released = self.guard.release().await;
        for guard in self.holder.around.into_iter().rev() {
            released.clone().and(guard.release().await)?;
        }
        released
    }
}

impl<T: DeserializeOwned> DocumentReader<T> {
    pub(super) async fn open(
        shelf: Arc<Shelf>,
        named: Named,
        guard: Guard,
        around: Vec<(Named, Guard)>,
    ) -> Result<Self> {
        let holder = Holder::new(shelf, named, &guard, around);
        let document = holder.first(&guard).await?;
        Ok(Self { document, guard, holder })
    }

    /// Reads the document or the part again, while it is held.
    pub async fn refresh(&mut self) -> Result<&T> {
        self.document = self.holder.read(&self.guard).await?;
        Ok(&self.document)
    }
}

impl<T> Deref for DocumentReader<T> {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.guard
    }
}

impl<T> fmt::Debug for DocumentReader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.guard, f)
    }
}
