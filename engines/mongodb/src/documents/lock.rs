//! The locks on the documents of a collection, and one of them before it is taken.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mongodb::bson::{Bson, Document};
use serde::de::DeserializeOwned;
use tenure_core::{
    Error, Guarantees, Guard, Key, LeaveOutcome, Locks, Place, Result, RwLock, Ticket, TicketId,
    WriteGuard,
};

use super::guard::{DocumentGuard, DocumentReader};
use super::holder::Around;
use super::name::Named;
use super::path::Path;
use super::shelf::Shelf;

/// The locks on the documents of one collection. Clones share everything.
///
/// Made by [`Documents::over`](super::Documents::over) and [`Documents::connect`](super::Documents::connect).
pub struct DocumentLocks<T> {
    shelf: Arc<Shelf>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for DocumentLocks<T> {
    fn clone(&self) -> Self {
        Self::new(self.shelf.clone())
    }
}

impl<T> DocumentLocks<T> {
    pub(super) fn new(shelf: Arc<Shelf>) -> Self {
        Self { shelf, of: PhantomData }
    }

    pub(super) fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    /// The lock on the document with this `_id`.
    ///
    /// The `_id` is a number, text, `ObjectId`, date, timestamp, bytes, boolean, null or document of these. As text it has at
    /// most 1,024 bytes. The lock of any other `_id` returns [`Invalid`](tenure_core::ErrorKind::Invalid).
    pub fn document(&self, id: impl Into<Bson>) -> DocumentLock<T> {
        DocumentLock::new(&self.shelf, Named::whole(id.into()))
    }

    /// The lock on a part of the document with this `_id`; `P` is the type of the part.
    ///
    /// ```no_run
    /// # use serde::Deserialize;
    /// # use tenure_mongodb::documents::{DocumentLocks, Path};
    /// # #[derive(Deserialize)] struct Order {}
    /// #[derive(Deserialize)]
    /// struct Line { sku: i32, quantity: i32 }
    ///
    /// # async fn pick(orders: DocumentLocks<Order>) -> tenure_core::Result<()> {
    /// let path = Path::field("lines").element("sku", 7);            // or "lines.$[sku = 7]".parse()?
    /// let line = orders.part::<Line>(42, path).lock().await?;
    /// println!("{} to pick", line.document().quantity);
    /// # Ok(())
    /// # }
    /// ```
    pub fn part<P>(&self, id: impl Into<Bson>, path: Path) -> DocumentLock<P> {
        DocumentLock::new(&self.shelf, Named { path, ..Named::whole(id.into()) })
    }

    /// What these servers promise.
    pub fn guarantees(&self) -> &Guarantees {
        self.shelf.locks.guarantees()
    }

    /// The same locks as those of any other store, for what is not about documents: [`Locks::with_owner`], elections,
    /// onlookers. A document is named by its lock's [key](DocumentLock::key).
    pub fn locks(&self) -> &Locks {
        &self.shelf.locks
    }

    /// Returns once nothing is under way any more. See [`Locks::close`].
    pub async fn close(&self) {
        self.shelf.locks.close().await;
    }
}

impl<T> fmt::Debug for DocumentLocks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentLocks").field("locks", &self.shelf.locks).finish_non_exhaustive()
    }
}

/// The lock on a document or a part of it, which is its own builder.
///
/// ```no_run
/// # use std::time::Duration;
/// # use serde::Deserialize;
/// # use tenure_mongodb::documents::DocumentLocks;
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
    pub(super) shelf: Arc<Shelf>,
    pub(super) named: Result<Named>,
    pub(super) lock: RwLock,
    /// What is around the part and read with it, from the outermost, where locks are taken together.
    pub(super) around: Vec<(Named, RwLock)>,
    has_terms: bool,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for DocumentLock<T> {
    fn clone(&self) -> Self {
        let (named, lock, around) = (self.named.clone(), self.lock.clone(), self.around.clone());
        let has_terms = self.has_terms;
        Self { shelf: self.shelf.clone(), named, lock, around, has_terms, of: PhantomData }
    }
}

/// The terms of a lock, which are those of a [`Mutex`](tenure_core::Mutex).
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
    fn new(shelf: &Arc<Shelf>, named: Named) -> Self {
        let (shelf, field) = (shelf.clone(), &shelf.settings.field);
        let named = named.path.check(field).and_then(|()| named.key()).map(|_| named);
        let lock = |named: &Named| {
            shelf.locks.rwlock(named.key().map_or_else(|_| String::new(), |key| key.to_string()))
        };
        let name = named.as_ref().ok();
        let around =
            name.filter(|_| shelf.settings.together).map(Named::around).unwrap_or_default();
        let around = around.into_iter().map(|named| (named.clone(), lock(&named))).collect();
        let lock = name.map_or_else(|| shelf.locks.rwlock(""), lock);
        Self { shelf, named, lock, around, has_terms: false, of: PhantomData }
    }

    terms! {
        /// How long it lives without a sign of life, 30 s by default. See [`Mutex::ttl`](tenure_core::Mutex::ttl).
        ttl(ttl: Duration);
        /// How often a sign of life is given, a third of the ttl by default.
        renew_every(period: Duration);
        /// How long before the end of its life it counts as lost. See [`Mutex::margin`](tenure_core::Mutex::margin).
        margin(margin: Duration);
        /// How much faster the server's clock may run than this machine's, in parts per million.
        drift_ppm(drift_ppm: u32);
        /// What others see beside it in the line.
        note(note: &str);
        /// After so long it is lost, and renewed no more.
        max_hold(time: Duration);
        /// It is not renewed by itself, only by [`extend`](tenure_core::LeaseHandle::extend).
        manual_renewal();
    }

    /// The same for a collection with a shard key: its fields, as the document has them. A server that keeps a part of the
    /// collection is found by them. They come before the terms.
    pub fn routed(self, shard_key: Document) -> Self {
        if self.has_terms {
            let error = Error::invalid(
                "say `routed` first, and then the terms of the lock: ttl, note and the like",
            );
            return Self { named: Err(error), ..self };
        }
        match self.named.clone().and_then(|named| named.routed(shard_key)) {
            Ok(named) => Self::new(&self.shelf, named),
            Err(error) => Self { named: Err(error), ..self },
        }
    }

    /// Its key: what [`Locks::line`], [`Locks::break_ticket`] and the like call it.
    pub fn key(&self) -> Result<Key> {
        self.named.as_ref().map_err(Clone::clone)?.key()
    }

    /// The tickets in its line, from the front.
    pub async fn line(&self) -> Result<Vec<(Ticket, Place)>> {
        self.shelf.locks.line(self.key()?).await
    }

    /// Breaks somebody's ticket. See [`Locks::break_ticket`].
    pub async fn break_ticket(&self, id: TicketId) -> Result<LeaveOutcome> {
        self.shelf.locks.break_ticket(self.key()?, id).await
    }

    /// What is around it, locked for reading, within this time; `None` if that was in vain.
    async fn around(&self, until: Until) -> Result<Option<Arc<Around>>> {
        let mut around = Around::default();
        for (named, lock) in &self.around {
            let Some(guard) = until.read(lock).await? else { return Ok(None) };
            around.push(named.clone(), guard);
        }
        Ok(Some(Arc::new(around)))
    }
}

impl<T: DeserializeOwned> DocumentLock<T> {
    /// Waits for the lock, and reads what it locks. First come, first served.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the line; nothing stays behind. So any time-out will do.
    pub async fn lock(&self) -> Result<DocumentGuard<T>> {
        let guard = self.write(Until::Served).await?;
        guard.ok_or_else(|| unreachable!("it waits for as long as it takes"))
    }

    /// Takes the lock if it is free, and answers `None` if it is not.
    pub async fn try_lock(&self) -> Result<Option<DocumentGuard<T>>> {
        self.write(Until::Now).await
    }

    /// Waits for the lock for so long, and answers `None` if that was in vain.
    pub async fn try_lock_for(&self, time: Duration) -> Result<Option<DocumentGuard<T>>> {
        self.write(Until::within(time)).await
    }

    /// Waits until it may read: readers hold together, and keep writers out.
    pub async fn read(&self) -> Result<DocumentReader<T>> {
        let guard = self.reading(Until::Served).await?;
        guard.ok_or_else(|| unreachable!("it waits for as long as it takes"))
    }

    /// Reads if nobody writes or waits to, and answers `None` otherwise.
    pub async fn try_read(&self) -> Result<Option<DocumentReader<T>>> {
        self.reading(Until::Now).await
    }

    /// Waits for so long until it may read, and answers `None` if that was in vain.
    pub async fn try_read_for(&self, time: Duration) -> Result<Option<DocumentReader<T>>> {
        self.reading(Until::within(time)).await
    }

    async fn write(&self, until: Until) -> Result<Option<DocumentGuard<T>>> {
        let named = self.named.clone()?;
        let Some(around) = self.around(until).await? else { return Ok(None) };
        let Some(guard) = until.write(&self.lock).await? else { return Ok(None) };
        DocumentGuard::open(self.shelf.clone(), named, guard, around).await.map(Some)
    }

    async fn reading(&self, until: Until) -> Result<Option<DocumentReader<T>>> {
        let named = self.named.clone()?;
        let Some(around) = self.around(until).await? else { return Ok(None) };
        let Some(guard) = until.read(&self.lock).await? else { return Ok(None) };
        DocumentReader::open(self.shelf.clone(), named, guard, around).await.map(Some)
    }
}

impl<T> fmt::Debug for DocumentLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentLock").field("named", &self.named).finish_non_exhaustive()
    }
}

/// How long a caller waits for all that it locks.
#[derive(Clone, Copy)]
pub(super) enum Until {
    Served,
    Now,
    Then(Instant),
}

impl Until {
    pub(super) fn within(time: Duration) -> Self {
        Instant::now().checked_add(time).map_or(Self::Served, Self::Then)
    }

    pub(super) async fn write(self, lock: &RwLock) -> Result<Option<WriteGuard>> {
        match self {
            Self::Served => lock.write().await.map(Some),
            Self::Now => lock.try_write().await,
            Self::Then(then) => lock.try_write_for(left(then)).await,
        }
    }

    pub(super) async fn read(self, lock: &RwLock) -> Result<Option<Guard>> {
        match self {
            Self::Served => lock.read().await.map(Some),
            Self::Now => lock.try_read().await,
            Self::Then(then) => lock.try_read_for(left(then)).await,
        }
    }
}

fn left(then: Instant) -> Duration {
    then.saturating_duration_since(Instant::now())
}
