//! A holder: the ticket that locks a document or a part, the tickets around it, and the requests in
//! their name.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::{BoxFuture, Either, FutureExt as _, select, select_all};
use mongodb::bson::Document;
use serde::de::DeserializeOwned;
use tenure_core::{Error, LeaseHandle, Loss, ReadGuard, Result};
use tokio::sync::Mutex;

use crate::collection_locks::CollectionLocks;
use crate::name::Named;
use crate::request::{Act, Done, Holding};
use crate::typed::read;

/// The locks around a part, from the outermost. Parts that are locked together share them; they are
/// released with the last.
#[derive(Default)]
pub(crate) struct Around(Vec<(Named, ReadGuard, LeaseHandle)>);

impl Around {
    pub(crate) fn push(&mut self, named: Named, guard: ReadGuard) {
        let handle = guard.handle();
        self.0.push((named, guard, handle));
    }

    /// Waits for another lock while all of these are held.
    pub(crate) async fn while_held<F: Future>(&self, wait: F) -> Result<F::Output> {
        while_held(self.0.iter().map(|(_, _, handle)| handle), wait).await
    }

    /// Returns the locks around this part, from the outermost.
    fn of(&self, part: &Named) -> impl Iterator<Item = (&Named, &LeaseHandle)> + Clone {
        let all = self.0.iter().map(|(named, _, handle)| (named, handle));
        all.filter(|(named, _)| named.path.is_around(&part.path))
    }

    /// Releases them, the innermost first.
    pub(crate) async fn release(self) -> Result<()> {
        let mut released = Ok(());
        for (_, guard, _) in self.0.into_iter().rev() {
            let outer = guard.release().await;
            released = released.and(outer);
        }
        released
    }
}

/// Runs work for as long as all of these locks are held. See [`LeaseHandle::run`].
pub(crate) async fn while_held<'a, F: Future>(
    held: impl Iterator<Item = &'a LeaseHandle> + Clone,
    work: F,
) -> Result<F::Output> {
    let lost: Vec<_> = held.clone().map(|held| held.lost().boxed()).collect();
    if lost.is_empty() {
        return Ok(work.await);
    }
    let (mut lost, mut work) = (select_all(lost), pin!(work));
    poll_fn(|context| {
        held.clone().try_for_each(LeaseHandle::check)?;
        if let Poll::Ready((loss, ..)) = lost.poll_unpin(context) {
            return Poll::Ready(Err(Error::lost(loss)));
        }
        work.as_mut().poll(context).map(Ok)
    })
    .await
}

pub(crate) struct Holder {
    collection: Arc<CollectionLocks>,
    /// The lease of the lock itself.
    own: LeaseHandle,
    holding: Holding,
    /// The locks around it that are taken with it, from the outermost.
    pub(crate) around: Arc<Around>,
    /// Number of writes that were begun. They are made one after the other, because this number in
    /// the ticket shows which of them the server has made.
    writes: Mutex<i64>,
}

impl Holder {
    pub(crate) fn new(
        collection: Arc<CollectionLocks>,
        named: Named,
        own: LeaseHandle,
        around: Arc<Around>,
    ) -> Self {
        let ids = around.of(&named).map(|(outer, handle)| (outer.clone(), handle.id())).collect();
        let holding = Holding { named, id: own.id(), around: ids };
        Self { collection, own, holding, around, writes: Mutex::default() }
    }

    pub(crate) fn own(&self) -> &LeaseHandle {
        &self.own
    }

    pub(crate) fn named(&self) -> &Named {
        &self.holding.named
    }

    /// Returns the document that was read with the lock. A ticket that had to wait reads it now. A
    /// lock around it may have been lost meanwhile, so all are checked.
    pub(crate) async fn first<T: DeserializeOwned>(&self) -> Result<T> {
        let document = match self.collection.backend.was_read(self.own.id()) {
            Some(document) => self.typed(document),
            None => self.read().await,
        };
        self.check().and(document)
    }

    pub(crate) async fn read<T: DeserializeOwned>(&self) -> Result<T> {
        self.check()?;
        let (holding, reads) = (self.holding.clone(), self.collection.settings.reads.clone());
        let found = self.collection.backend.read(holding, reads).await?;
        match found {
            Some(document) => self.typed(document),
            None => Err(self.refused().await),
        }
    }

    fn typed<T: DeserializeOwned>(&self, document: Document) -> Result<T> {
        read(document, &self.holding.named.id, &self.collection.settings.field)
    }

    /// Returns the lock and all locks around it.
    pub(crate) fn all(&self) -> impl Iterator<Item = &LeaseHandle> + Clone {
        let around = self.around.of(&self.holding.named);
        around.map(|(_, handle)| handle).chain([&self.own])
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.all().try_for_each(LeaseHandle::check)
    }

    /// Waits until any of the locks is lost. The future does not borrow the holder, so another task
    /// may await it.
    pub(crate) fn lost(&self) -> BoxFuture<'static, Loss> {
        let all: Vec<_> = self.all().map(|held| held.lost().boxed()).collect();
        select_all(all).map(|(loss, _, _)| loss).boxed()
    }

    /// Runs work for as long as all of the locks are held. See [`LeaseHandle::run`].
    pub(crate) async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        while_held(self.all(), work).await
    }

    pub(crate) async fn extend(&self) -> Result<()> {
        for held in self.all() {
            held.extend().await?;
        }
        Ok(())
    }

    /// Returns why the server refused an act: it renews, and so learns the state of the lock.
    async fn refused(&self) -> Error {
        self.extend().await.err().unwrap_or_else(|| Error::lost(Loss::Broken))
    }

    /// Runs an act under the lock, within the time of one answer.
    pub(crate) async fn act(&self, act: Act) -> Result<()> {
        let within = self.collection.locks.guarantees().answers_within;
        let late = self.collection.backend.host().sleep(within);
        match select(pin!(self.act_in_turn(act)), late).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => Err(Error::unavailable(format!(
                "the store did not say within {within:?} whether a change under the lock of {} was made: it may be made, or not",
                self.own.key()
            ))),
        }
    }

    async fn act_in_turn(&self, act: Act) -> Result<()> {
        let mut writes = self.writes.lock().await;
        self.check()?;
        *writes += 1;
        match self.collection.backend.act(self.holding.clone(), *writes, act).await? {
            Done::Yes => Ok(()),
            Done::No => Err(self.refused().await),
        }
    }
}
