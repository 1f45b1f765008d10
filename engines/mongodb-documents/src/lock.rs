//! The locks on the documents of a collection, and the lock on one of them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Bson, Document};
use serde::de::DeserializeOwned;
use tenure_core::{
    Error, Guarantees, Key, LeaveOutcome, LineEntry, Locks, Result, RwLock, TicketId,
};

use crate::collection_locks::CollectionLocks;
use crate::guard::{DocumentGuard, DocumentReader};
use crate::holder::Around;
use crate::name::Named;
use crate::path::Path;
use crate::until::Until;

/// The locks on the documents of one collection. Clones share everything.
///
/// Made by [`Documents::over`](super::Documents::over) and
/// [`Documents::connect`](super::Documents::connect).
pub struct DocumentLocks<T> {
    collection: Arc<CollectionLocks>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for DocumentLocks<T> {
    fn clone(&self) -> Self {
        Self::new(self.collection.clone())
    }
}

impl<T> DocumentLocks<T> {
    pub(crate) fn new(collection: Arc<CollectionLocks>) -> Self {
        Self { collection, of: PhantomData }
    }

    pub(crate) fn collection(&self) -> &Arc<CollectionLocks> {
        &self.collection
    }

    /// Returns the lock on the document with this `_id`.
    ///
    /// The `_id` is a number, text, `ObjectId`, date, timestamp, bytes, boolean, null or document
    /// of these. As text it has at most 1,024 bytes. The lock of any other `_id` returns
    /// [`Invalid`](tenure_core::ErrorKind::Invalid).
    pub fn document(&self, id: impl Into<Bson>) -> DocumentLock<T> {
        DocumentLock::new(&self.collection, Named::whole(id.into()))
    }

    /// Returns the lock on a part of the document with this `_id`. `P` is the type of the part.
    ///
    /// ```no_run
    /// # use serde::Deserialize;
    /// # use tenure_mongodb_documents::{DocumentLocks, Path};
    /// # #[derive(Deserialize)] struct Order {}
    /// #[derive(Deserialize)]
    /// struct Line { sku: i32, quantity: i32 }
    ///
    /// # async fn pick(orders: DocumentLocks<Order>) -> tenure_core::Result<()> {
    /// let path = Path::field("lines").element("sku", 7);   // or "lines.$[sku = 7]".parse()?
    /// let line = orders.part::<Line>(42, path).lock().await?;
    /// println!("{} to pick", line.document().quantity);
    /// # Ok(())
    /// # }
    /// ```
    pub fn part<P>(&self, id: impl Into<Bson>, path: Path) -> DocumentLock<P> {
        DocumentLock::new(&self.collection, Named { path, ..Named::whole(id.into()) })
    }

    /// Returns what the connected servers promise.
    pub fn guarantees(&self) -> &Guarantees {
        self.collection.locks.guarantees()
    }

    /// Returns the same locks in the form of any other store: for [`Locks::with_owner`], elections
    /// and onlookers. A document is named by its lock's [key](DocumentLock::key).
    pub fn locks(&self) -> &Locks {
        &self.collection.locks
    }

    /// Closes the locks for good, and waits until dropped locks are released.
    ///
    /// Guards that are still held are lost. Calls that wait return
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) with the reason
    /// [`Closed`](tenure_core::Reason::Closed). See [`Locks::close`].
    pub async fn close(&self) {
        self.collection.locks.close().await;
    }
}

impl<T> fmt::Debug for DocumentLocks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentLocks")
            .field("locks", &self.collection.locks)
            .finish_non_exhaustive()
    }
}

/// The lock on a document or a part of it, which is its own builder.
///
/// ```no_run
/// # use std::time::Duration;
/// # use serde::Deserialize;
/// # use tenure_mongodb_documents::DocumentLocks;
/// # #[derive(Deserialize)] struct Order {}
/// # async fn pay(orders: DocumentLocks<Order>) -> tenure_core::Result<()> {
/// let lock = orders.document(42).ttl(Duration::from_secs(10)).note("the clerk at desk 3");
/// let Some(order) = lock.try_lock().await? else { return Ok(()) };    // busy is not an error
/// # drop(order);
/// # Ok(())
/// # }
/// ```
#[must_use = "a lock locks nothing until it is asked to"]
pub struct DocumentLock<T> {
    pub(crate) collection: Arc<CollectionLocks>,
    pub(crate) named: Result<Named>,
    pub(crate) lock: RwLock,
    /// Locks that are taken around the part for reading, from the outermost, with
    /// `Documents::hierarchical`.
    pub(crate) around: Vec<(Named, RwLock)>,
    has_terms: bool,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for DocumentLock<T> {
    fn clone(&self) -> Self {
        let (named, lock, around) = (self.named.clone(), self.lock.clone(), self.around.clone());
        let has_terms = self.has_terms;
        Self {
            collection: self.collection.clone(),
            named,
            lock,
            around,
            has_terms,
            of: PhantomData,
        }
    }
}

/// Terms of a lock, which are those of a [`Mutex`](tenure_core::Mutex).
macro_rules! terms {
    ($($(#[$about:meta])* $term:ident($($arg:ident: $type:ty)?);)*) => {
        $($(#[$about])* pub fn $term(mut self $(, $arg: $type)?) -> Self {
            self.lock = self.lock.$term($($arg)?);
            self.has_terms = true;
            for (_, lock) in &mut self.around {
                *lock = lock.clone().$term($($arg)?);
            }
            self
        })*
    };
}

impl<T> DocumentLock<T> {
    fn new(collection: &Arc<CollectionLocks>, named: Named) -> Self {
        let (collection, field) = (collection.clone(), &collection.settings.field);
        let named = named.path.check(field).and_then(|()| named.key()).map(|_| named);
        let lock = |named: &Named| {
            collection
                .locks
                .rwlock(named.key().map_or_else(|_| String::new(), |key| key.to_string()))
        };
        let name = named.as_ref().ok();
        let around = name
            .filter(|_| collection.settings.hierarchical)
            .map(Named::around)
            .unwrap_or_default();
        let around = around.into_iter().map(|named| (named.clone(), lock(&named))).collect();
        let lock = name.map_or_else(|| collection.locks.rwlock(""), lock);
        Self { collection, named, lock, around, has_terms: false, of: PhantomData }
    }

    terms! {
        /// Sets the ttl without a renewal, 30 s by default. See
        /// [`Mutex::ttl`](tenure_core::Mutex::ttl).
        ttl(ttl: Duration);
        /// Sets the time between two renewals, a third of the ttl by default.
        renew_every(period: Duration);
        /// Sets the text that others see beside the ticket in the line.
        note(note: &str);
        /// Sets the longest hold: after this time the lock is lost, and is not renewed any more.
        max_hold(time: Duration);
        /// Turns off renewal: only [`extend`](tenure_core::LeaseHandle::extend) renews.
        manual_renewal();
    }

    /// Adds the fields of the shard key, as the document has them. A cluster finds the shard by
    /// them. Call this before the terms.
    pub fn routed(self, shard_key: Document) -> Self {
        if self.has_terms {
            let error = Error::invalid(
                "say `routed` first, and then the terms of the lock: ttl, note and the like",
            );
            return Self { named: Err(error), ..self };
        }
        match self.named.clone().and_then(|named| named.routed(shard_key)) {
            Ok(named) => Self::new(&self.collection, named),
            Err(error) => Self { named: Err(error), ..self },
        }
    }

    /// Returns the key of the lock, for [`Locks::line`], [`Locks::break_ticket`] and the like.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the `_id` or the path cannot name a lock.
    pub fn key(&self) -> Result<Key> {
        self.named.as_ref().map_err(Clone::clone)?.key()
    }

    /// Returns the holders and waiters, from the front.
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](tenure_core::ErrorKind).
    pub async fn line(&self) -> Result<Vec<LineEntry>> {
        self.collection.locks.line(self.key()?).await
    }

    /// Breaks a ticket of any client. See [`Locks::break_ticket`].
    ///
    /// # Errors
    ///
    /// See [`ErrorKind`](tenure_core::ErrorKind).
    pub async fn break_ticket(&self, id: TicketId) -> Result<LeaveOutcome> {
        self.collection.locks.break_ticket(self.key()?, id).await
    }

    /// Takes the locks around the part for reading. Returns `None` if the time is over before.
    async fn around(&self, until: Until) -> Result<Option<Arc<Around>>> {
        let mut around = Around::default();
        for (named, lock) in &self.around {
            let guard = around.while_held(until.read(lock)).await??;
            let Some(guard) = guard else { return Ok(None) };
            around.push(named.clone(), guard);
        }
        Ok(Some(Arc::new(around)))
    }
}

impl<T: DeserializeOwned> DocumentLock<T> {
    /// Waits for the lock, and reads the document or the part. First come, first served.
    ///
    /// # Errors
    ///
    /// [`Rejected`](tenure_core::ErrorKind::Rejected) if there is no such document or part, or if
    /// another value is in the lock's field. [`Invalid`](tenure_core::ErrorKind::Invalid) if the
    /// `_id` or the path cannot name a lock, or if the document cannot be read as its type.
    /// [`Unavailable`](tenure_core::ErrorKind::Unavailable) if the server does not answer.
    /// [`Lost`](tenure_core::ErrorKind::Lost) if an operator broke the ticket, or the lock or one
    /// around it was lost before the document was read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the line, so any timeout is safe.
    pub async fn lock(&self) -> Result<DocumentGuard<T>> {
        let guard = self.write(Until::Served).await?;
        guard.ok_or_else(|| unreachable!("it waits for as long as it takes"))
    }

    /// Takes the lock if it is free. Returns `None` if it is not.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock(&self) -> Result<Option<DocumentGuard<T>>> {
        self.write(Until::Now).await
    }

    /// Waits for the lock for this time. Returns `None` if it was not free by then.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_lock_for(&self, time: Duration) -> Result<Option<DocumentGuard<T>>> {
        self.write(Until::within(time)).await
    }

    /// Waits for a read lock: readers hold together, and keep writers out.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn read(&self) -> Result<DocumentReader<T>> {
        let guard = self.reading(Until::Served).await?;
        guard.ok_or_else(|| unreachable!("it waits for as long as it takes"))
    }

    /// Takes a read lock if no writer holds or waits. Returns `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_read(&self) -> Result<Option<DocumentReader<T>>> {
        self.reading(Until::Now).await
    }

    /// Waits for a read lock for this time. Returns `None` if it was not free by then.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub async fn try_read_for(&self, time: Duration) -> Result<Option<DocumentReader<T>>> {
        self.reading(Until::within(time)).await
    }

    async fn write(&self, until: Until) -> Result<Option<DocumentGuard<T>>> {
        let named = self.named.clone()?;
        let Some(around) = self.around(until).await? else { return Ok(None) };
        let guard = around.while_held(until.write(&self.lock)).await??;
        let Some(guard) = guard else { return Ok(None) };
        DocumentGuard::open(self.collection.clone(), named, guard, around).await.map(Some)
    }

    async fn reading(&self, until: Until) -> Result<Option<DocumentReader<T>>> {
        let named = self.named.clone()?;
        let Some(around) = self.around(until).await? else { return Ok(None) };
        let guard = around.while_held(until.read(&self.lock)).await??;
        let Some(guard) = guard else { return Ok(None) };
        DocumentReader::open(self.collection.clone(), named, guard, around).await.map(Some)
    }
}

impl<T> fmt::Debug for DocumentLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentLock").field("named", &self.named).finish_non_exhaustive()
    }
}
