//! Locks on several parts of one document, taken by one task without a deadlock.
//!
//! Each lock on a part also takes read locks around it. A waiter for the whole may stand between
//! two such read locks of one task: behind the first, and ahead of the second, so that both wait
//! for ever. Here the read locks around the parts are taken once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::Bson;
use serde::de::DeserializeOwned;
use tenure_core::{Error, LeaseHandle, Result, RwLock};

use crate::guard::DocumentGuard;
use crate::holder::{Around, while_held};
use crate::lock::{DocumentLock, DocumentLocks};
use crate::name::Named;
use crate::path::Path;
use crate::until::Until;

/// Locks on several parts of one document, which are taken together. Made by
/// [`DocumentLocks::parts`](super::DocumentLocks::parts).
#[must_use = "a lock locks nothing until it is asked to"]
pub struct DocumentParts<P>(Vec<DocumentLock<P>>);

impl<T> DocumentLocks<T> {
    /// Returns the locks on several parts of the document with this `_id`, for one task. With
    /// [`Documents::hierarchical`](super::Documents::hierarchical), the locks around the parts are
    /// taken once for all of them.
    ///
    /// A task that holds one part and waits for another one by [`part`](Self::part) waits for ever
    /// if another client waits for the whole meanwhile: that client is ahead of the second part,
    /// and behind the first one. This takes the parts in an order that all clients share.
    ///
    /// ```no_run
    /// # use serde::Deserialize;
    /// # use mongodb::bson::doc;
    /// # use tenure_mongodb_documents::{DocumentLocks, Path};
    /// # #[derive(Deserialize)] struct Order {}
    /// # #[derive(Deserialize)] struct Line { quantity: i32 }
    /// # async fn pick(orders: DocumentLocks<Order>) -> tenure_core::Result<()> {
    /// let line = |sku| Path::field("lines").element("sku", sku);
    /// let lines = orders.parts::<Line>(42, [line(7), line(8)]).lock().await?;
    /// for line in lines {
    ///     line.release_with(doc! { "$set": { "state": "picked" } }).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn parts<P>(
        &self,
        id: impl Into<Bson>,
        paths: impl IntoIterator<Item = Path>,
    ) -> DocumentParts<P> {
        let id = id.into();
        DocumentParts(paths.into_iter().map(|path| self.part(id.clone(), path)).collect())
    }
}

/// One lock to take: a part for its guard, or a read lock around parts.
struct LockStep<'a> {
    named: Named,
    lock: &'a RwLock,
    /// The index of the part. `None` for a read lock around parts.
    part: Option<usize>,
}

impl<P> Clone for DocumentParts<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P> DocumentParts<P> {
    /// Sets the ttl of each without a renewal, 30 s by default.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.into_iter().map(|lock| lock.ttl(ttl)).collect())
    }

    /// Sets the text that others see beside each ticket in its line.
    pub fn note(self, note: &str) -> Self {
        Self(self.0.into_iter().map(|lock| lock.note(note)).collect())
    }

    /// Returns all locks in the order in which every client takes them: from the outside to the
    /// inside, and by their names.
    fn steps(&self) -> Result<Vec<LockStep<'_>>> {
        let mut steps: Vec<LockStep<'_>> = Vec::new();
        for (at, part) in self.0.iter().enumerate() {
            let named = part.named.clone()?;
            for (other, beside) in self.0.iter().enumerate() {
                let beside = beside.named.clone()?;
                if other < at && beside == named || beside.path.is_around(&named.path) {
                    return Err(Error::invalid(format!(
                        "the part `{}` cannot be locked beside `{}`, which is the same or around it: name the outer one only",
                        named.path, beside.path
                    )));
                }
            }
            for (named, lock) in &part.around {
                if !steps.iter().any(|step| step.named == *named) {
                    steps.push(LockStep { named: named.clone(), lock, part: None });
                }
            }
            steps.push(LockStep { named, lock: &part.lock, part: Some(at) });
        }
        steps.sort_by_cached_key(|step| {
            (step.named.path.steps().len(), step.named.path.to_string())
        });
        Ok(steps)
    }
}

impl<P: DeserializeOwned> DocumentParts<P> {
    /// Waits for all of the locks, and reads the parts. The guards are in the order of the paths.
    /// Each changes and releases its own part. The locks around them are released with the last.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if two paths lead to one part, or one part lies
    /// in another. [`Lost`](tenure_core::ErrorKind::Lost) if one of the locks was lost before all
    /// were taken; the others are released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves all lines.
    pub async fn lock(&self) -> Result<Vec<DocumentGuard<P>>> {
        let guards = self.write(Until::Served).await?;
        guards.ok_or_else(|| unreachable!("it waits for as long as it takes"))
    }

    /// Takes all of the locks if all are free. Returns `None` if one is not.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<Vec<DocumentGuard<P>>>> {
        self.write(Until::Now).await
    }

    /// Waits for all of the locks for this time. Returns `None` if one was not free by then.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, time: Duration) -> Result<Option<Vec<DocumentGuard<P>>>> {
        self.write(Until::within(time)).await
    }

    async fn write(&self, until: Until) -> Result<Option<Vec<DocumentGuard<P>>>> {
        let mut around = Around::default();
        let (mut held, mut own): (Vec<_>, Vec<LeaseHandle>) = Default::default();
        for step in self.steps()? {
            if let Some(part) = step.part {
                let mut guard = step.lock.try_write().await?;
                if guard.is_none() {
                    self.is_of_others(&step.named, &own).await?;
                    guard = while_held(own.iter(), until.write(step.lock)).await??;
                }
                let Some(guard) = guard else { return Ok(None) };
                own.push(guard.handle());
                held.push((part, guard));
            } else {
                let mut guard = step.lock.try_read().await?;
                if guard.is_none() {
                    self.is_of_others(&step.named, &own).await?;
                    guard = while_held(own.iter(), until.read(step.lock)).await??;
                }
                let Some(guard) = guard else { return Ok(None) };
                own.push(guard.handle());
                around.push(step.named, guard);
            }
        }
        let around = Arc::new(around);
        held.sort_by_key(|(part, _)| *part);
        let mut guards = Vec::with_capacity(held.len());
        for (part, guard) in held {
            let lock = &self.0[part];
            let named = lock.named.clone()?;
            let guard = DocumentGuard::open(lock.collection.clone(), named, guard, around.clone());
            guards.push(guard.await?);
        }
        // One may have been lost while another was taken or read.
        own.iter().try_for_each(LeaseHandle::check)?;
        Ok(Some(guards))
    }

    /// Refuses to wait for a lock that this call holds already by another path: it would wait for
    /// itself.
    async fn is_of_others(&self, named: &Named, own: &[LeaseHandle]) -> Result<()> {
        let Some(part) = self.0.first() else { return Ok(()) };
        let line = part.collection.locks.line(named.key()?).await?;
        if line.iter().any(|ticket| own.iter().any(|held| held.id() == ticket.id)) {
            return Err(Error::invalid(format!(
                "the path `{}` finds a part that another path finds, too: name each part by the same fields",
                named.path
            )));
        }
        Ok(())
    }
}

impl<P> fmt::Debug for DocumentParts<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DocumentParts").field(&self.0).finish()
    }
}
