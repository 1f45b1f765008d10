//! A queue: any one document that matches is locked and read, in an order, by whoever comes next.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mongodb::bson::Document;
use mongodb::options::UpdateModifications;
use serde::de::DeserializeOwned;
use tenure_core::{Error, Key, Loss, Result, RwLock};
use tokio::sync::Mutex;

use super::arrivals::Arrivals;
use super::guard::DocumentGuard;
use super::lock::DocumentLocks;
use super::shelf::Shelf;
use crate::spots::{Claiming, queue_key};

/// Who waits looks again at least so often: a bell is a hint.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// After somebody's life has ended, and after a time to which a document was put off, somebody looks so much later.
const LATER: Duration = Duration::from_millis(2);

/// For so long nobody claims a document that is not what its type says.
const UNREADABLE_REST: Duration = Duration::from_secs(60);

/// The documents that match a filter, as work: each is locked by one worker at a time. Clones share everything.
///
/// ```no_run
/// # use serde::Deserialize;
/// # use mongodb::bson::doc;
/// # use tenure_mongodb::documents::DocumentLocks;
/// # #[derive(Deserialize)] struct Mail { to: String }
/// # async fn send(_: &Mail) -> bool { true }
/// # async fn work(mails: DocumentLocks<Mail>) -> tenure_core::Result<()> {
/// let queue = mails.queue(doc! { "state": "new" }).order(doc! { "_id": 1 });
/// loop {
///     let mail = queue.next().await?;                       // waits until there is one, without polling
///     match send(mail.document()).await {
///         true => mail.done(doc! { "$set": { "state": "sent" } }).await?,
///         false => mail.retry_later(std::time::Duration::from_secs(60)).await?,
///     }
/// }
/// # }
/// ```
///
/// A claim is one command: it finds the first document that matches and that nobody holds, locks it and reads it. The
/// filter needs an index of the user's own, as it does without locks. What is done must not match any more. The document of
/// a worker that dies is claimed again when the worker's ttl is over.
pub struct Queue<T> {
    shelf: Arc<Shelf>,
    lock: RwLock,
    open: Arc<Open>,
    of: std::marker::PhantomData<fn() -> T>,
}

/// What the clones of a queue share.
struct Open {
    shelf: Arc<Shelf>,
    key: Key,
    claiming: Claiming,
    /// Those who wait in this process come one after the other, in their order.
    turn: Mutex<Option<Arrivals>>,
    waiting: AtomicUsize,
}

impl Open {
    fn new(shelf: &Arc<Shelf>, claiming: Claiming) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let key = queue_key(COUNT.fetch_add(1, Ordering::Relaxed))?;
        shelf.home.open_queue(&key, claiming.clone());
        let (turn, waiting) = (Mutex::default(), AtomicUsize::new(0));
        Ok(Self { shelf: shelf.clone(), key, claiming, turn, waiting })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shelf.home.close_queue(&self.key);
    }
}

impl<T> DocumentLocks<T> {
    /// The documents that match this filter, as work for whoever comes next.
    pub fn queue(&self, filter: Document) -> Queue<T> {
        Queue::new(self.shelf(), Claiming { filter, order: None })
    }
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        let (lock, open) = (self.lock.clone(), self.open.clone());
        Self { shelf: self.shelf.clone(), lock, open, of: std::marker::PhantomData }
    }
}

impl<T> Queue<T> {
    fn new(shelf: &Arc<Shelf>, claiming: Claiming) -> Self {
        let open = Open::new(shelf, claiming).expect("the locks are on documents");
        let lock = shelf.locks.rwlock(&open.key);
        Self { shelf: shelf.clone(), lock, open: Arc::new(open), of: std::marker::PhantomData }
    }

    /// The same in this order, which is that of a `sort`. Without one it is any.
    #[must_use]
    pub fn order(self, order: Document) -> Self {
        let claiming = Claiming { order: Some(order), ..self.open.claiming.clone() };
        Self::new(&self.shelf, claiming)
    }

    /// How long a document that is claimed stays so without a sign of life of its worker, 30 s by default.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lock = self.lock.ttl(ttl);
        self
    }

    /// What others see beside a document that is claimed.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        self.lock = self.lock.note(note);
        self
    }
}

impl<T: DeserializeOwned> Queue<T> {
    /// Claims the first document that matches and is free, and answers `None` if there is none.
    ///
    /// A document that is not what its type says is an error, and is put off for a minute, so that those behind it come.
    pub async fn try_next(&self) -> Result<Option<Job<T>>> {
        let Some(guard) = self.lock.try_write().await? else { return Ok(None) };
        let named = self.shelf.home.claimed_by(guard.id())?;
        let named = named.ok_or_else(|| Error::lost(Loss::Broken))?;
        let (home, rest) = (self.shelf.clone(), UNREADABLE_REST);
        let opened = DocumentGuard::open_or_put_off(home, named, guard, rest);
        Ok(Some(Job(opened.await?)))
    }

    /// Claims the first document that matches and is free, as soon as there is one.
    ///
    /// Those who wait in one process are served in their order; among processes whoever is quicker.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing claimed.
    pub async fn next(&self) -> Result<Job<T>> {
        if self.open.waiting.load(Ordering::Relaxed) == 0
            && let Some(job) = self.try_next().await?
        {
            return Ok(job);
        }
        let _waiting = Waiting::new(&self.open.waiting);
        let mut turn = self.open.turn.lock().await;
        let can_push = self.shelf.locks.guarantees().push;
        loop {
            // Listen first, and look then: what comes in between is heard.
            let mut arrivals = turn.as_ref().map(Arrivals::again);
            if let Some(job) = self.try_next().await? {
                return Ok(job);
            }
            if arrivals.is_none() && can_push {
                *turn = Some(self.shelf.home.arrivals().await?);
                continue;
            }
            let filter = self.open.claiming.filter.clone();
            let pause = match self.shelf.home.next_due(filter).await? {
                Some(due) => (due + LATER).min(LOOK_AGAIN),
                None => LOOK_AGAIN,
            };
            let pause = if can_push { pause } else { pause.min(Duration::from_secs(1)) };
            let nap = self.shelf.home.host().sleep(pause);
            match &mut arrivals {
                Some(arrivals) => {
                    let rung = std::pin::pin!(arrivals.rung());
                    drop(futures_util::future::select(rung, nap).await);
                }
                None => nap.await,
            }
        }
    }

    /// The same for so long, and answers `None` if that was in vain.
    pub async fn next_within(&self, time: Duration) -> Result<Option<Job<T>>> {
        self.shelf.home.host().ready()?;
        let began = Instant::now();
        let nap = self.shelf.home.host().sleep(time);
        let next = std::pin::pin!(self.next());
        match futures_util::future::select(next, nap).await {
            futures_util::future::Either::Left((job, _)) => job.map(Some),
            futures_util::future::Either::Right(_) => {
                tracing::debug!(waited = ?began.elapsed(), "no document came in");
                Ok(None)
            }
        }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("claiming", &self.open.claiming).finish_non_exhaustive()
    }
}

/// Counts who waits, for as long as it waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A document that is claimed. Dropping it lets it go, for the next worker.
#[must_use = "the document is let go as soon as its job is dropped"]
pub struct Job<T>(DocumentGuard<T>);

impl<T> Job<T> {
    /// The work is done: changes the document so that it matches no more, and lets it go, if it is still held.
    pub async fn done(self, update: impl Into<UpdateModifications>) -> Result<()> {
        self.0.release_with(update).await
    }

    /// The work is done: deletes the document, if it is still held.
    pub async fn delete(self) -> Result<()> {
        self.0.delete().await
    }

    /// Lets the document go, and nobody claims it before this time is over, by the server's clock.
    pub async fn retry_later(self, time: Duration) -> Result<()> {
        self.0.put_off(time).await
    }
}

impl<T> Deref for Job<T> {
    type Target = DocumentGuard<T>;

    fn deref(&self) -> &DocumentGuard<T> {
        &self.0
    }
}

impl<T> DerefMut for Job<T> {
    fn deref_mut(&mut self) -> &mut DocumentGuard<T> {
        &mut self.0
    }
}

impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
