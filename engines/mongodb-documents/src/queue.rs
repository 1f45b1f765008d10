//! A queue: each worker claims, locks and reads the next matching document, in an order.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mongodb::bson::Document;
use serde::de::DeserializeOwned;
use tenure_core::{Error, ErrorKind, Key, Loss, Result, RwLock, jitter};
use tokio::sync::Mutex;

use crate::arrivals::{Arrivals, Worker};
use crate::claimed_document::ClaimedDocument;
use crate::collection_locks::CollectionLocks;
use crate::filter;
use crate::guard::DocumentGuard;
use crate::locations::{Claiming, queue_key};
use crate::lock::DocumentLocks;

/// Longest time between two looks of a waiting worker: a notification is a hint.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Time after the end of a lease, or after a `not_before`, at which a worker looks.
const LATER: Duration = Duration::from_millis(2);
/// First backoff after a look without a result. It doubles with each further one, up to `REST_MAX`,
/// and has jitter.
const REST_FIRST: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(1);
/// Maximum doublings of `REST_FIRST`.
const DOUBLES_MAX: u32 = 5;

/// Time for which no worker claims a document that cannot be read as its type.
const UNREADABLE_REST: Duration = Duration::from_secs(60);
/// Maximum of such documents that one call passes over. If all are so, the type is wrong.
const UNREADABLE_MAX: u32 = 16;

/// A queue of the documents that match a filter: each is locked by one worker at a time. Clones
/// share everything.
///
/// ```no_run
/// # use serde::Deserialize;
/// # use mongodb::bson::doc;
/// # use tenure_mongodb_documents::DocumentLocks;
/// # #[derive(Deserialize)] struct Mail { to: String }
/// # async fn send(_: &Mail) -> bool { true }
/// # async fn work(mails: DocumentLocks<Mail>) -> tenure_core::Result<()> {
/// let queue = mails.queue(doc! { "state": "new" }).order(doc! { "_id": 1 });
/// loop {
///     let mail = queue.next().await?;     // waits until there is one, without polling
///     match send(mail.document()).await {
///         true => mail.done(doc! { "$set": { "state": "sent" } }).await?,
///         false => mail.retry_later(std::time::Duration::from_secs(60)).await?,
///     }
/// }
/// # }
/// ```
///
/// A claim is one command: it finds the first document that matches and is not held, locks it and
/// reads it. The filter needs an index of the user's own, as it does without locks. A document that
/// is done must not match any more. The document of a worker that dies is claimed again when the
/// worker's ttl is over.
///
/// A queue passes over three kinds of documents for a minute, with a warning in the log: those that
/// cannot be locked, those that cannot be read as their type, and those whose `done` was refused.
pub struct DocumentQueue<T> {
    collection: Arc<CollectionLocks>,
    lock: RwLock,
    terms: Terms,
    open: Arc<OpenQueue>,
    of: std::marker::PhantomData<fn() -> T>,
}

/// Terms of each claim. A queue in another order keeps them.
#[derive(Clone, Default)]
struct Terms {
    ttl: Option<Duration>,
    note: Option<String>,
}

impl Terms {
    fn of(&self, mut lock: RwLock) -> RwLock {
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        match &self.note {
            Some(note) => lock.note(note.as_str()),
            None => lock,
        }
    }
}

/// State that the clones of a queue share.
struct OpenQueue {
    collection: Arc<CollectionLocks>,
    key: Key,
    claiming: Claiming,
    /// Reason for which the filter is refused, if it is.
    refused: Option<Error>,
    /// Waiting workers of this process take turns, first come, first served.
    turn: Mutex<Option<Arrivals>>,
    waiting: AtomicUsize,
}

impl OpenQueue {
    fn new(collection: &Arc<CollectionLocks>, claiming: Claiming) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let key = queue_key(COUNT.fetch_add(1, Ordering::Relaxed))?;
        collection.backend.open_queue(&key, claiming.clone());
        let (turn, waiting) = (Mutex::default(), AtomicUsize::new(0));
        let refused = filter::check(&claiming.filter).err();
        Ok(Self { collection: collection.clone(), key, claiming, refused, turn, waiting })
    }
}

impl Drop for OpenQueue {
    fn drop(&mut self) {
        self.collection.backend.close_queue(&self.key);
    }
}

impl<T> DocumentLocks<T> {
    /// Returns the queue of the documents that match this filter.
    ///
    /// The filter is one that `$match` takes. The first claim refuses one with `$where`, `$near` or
    /// `$nearSphere` as [`Invalid`](tenure_core::ErrorKind::Invalid).
    pub fn queue(&self, filter: Document) -> DocumentQueue<T> {
        DocumentQueue::new(
            self.collection(),
            Claiming { filter, ..Claiming::default() },
            Terms::default(),
        )
    }
}

impl<T> Clone for DocumentQueue<T> {
    fn clone(&self) -> Self {
        let (lock, terms, open) = (self.lock.clone(), self.terms.clone(), self.open.clone());
        Self {
            collection: self.collection.clone(),
            lock,
            terms,
            open,
            of: std::marker::PhantomData,
        }
    }
}

impl<T> DocumentQueue<T> {
    fn new(collection: &Arc<CollectionLocks>, claiming: Claiming, terms: Terms) -> Self {
        let open = OpenQueue::new(collection, claiming).expect("the locks are on documents");
        let (lock, open) = (terms.of(collection.locks.rwlock(&open.key)), Arc::new(open));
        Self { collection: collection.clone(), lock, terms, open, of: std::marker::PhantomData }
    }

    /// Sets the order, as in a `sort`. By default it is any.
    #[must_use]
    pub fn order(self, order: Document) -> Self {
        let claiming = Claiming { order: Some(order), ..self.open.claiming.clone() };
        Self::new(&self.collection, claiming, self.terms)
    }

    /// Sets how long a claimed document stays claimed without a renewal, 30 s by default.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lock = self.lock.ttl(ttl);
        self.terms.ttl = Some(ttl);
        self
    }

    /// Sets the text that others see beside a claimed document.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        self.lock = self.lock.note(note);
        self.terms.note = Some(note.to_owned());
        self
    }
}

impl<T: DeserializeOwned> DocumentQueue<T> {
    /// Claims the first document that matches and is free. Returns `None` if there is none.
    ///
    /// A document that cannot be read as its type is put off for a minute, with a warning in the
    /// log, and the next one is claimed.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if 16 documents in a row cannot be read as
    /// their type, and [`Unavailable`](tenure_core::ErrorKind::Unavailable) if the server does not
    /// answer.
    pub async fn try_next(&self) -> Result<Option<ClaimedDocument<T>>> {
        if let Some(error) = &self.open.refused {
            return Err(error.clone());
        }
        let mut unreadable = 0;
        loop {
            let Some(guard) = self.lock.try_write().await? else { return Ok(None) };
            let named = self.collection.backend.claimed_by(guard.id())?;
            let named = named.ok_or_else(|| Error::lost(Loss::Broken))?;
            let (backend, rest) = (self.collection.clone(), UNREADABLE_REST);
            match DocumentGuard::open_or_put_off(backend, named, guard, rest).await {
                Ok(guard) => return Ok(Some(ClaimedDocument::new(guard))),
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    tracing::warn!(%error, "a queue passes over a document for {UNREADABLE_REST:?}");
                    unreadable += 1;
                    if unreadable == UNREADABLE_MAX {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Claims the first document that matches and is free, as soon as there is one.
    ///
    /// Workers of one process are served in their order. Among processes the quicker one gets the
    /// document.
    ///
    /// # Errors
    ///
    /// As [`try_next`](Self::try_next), and [`Unavailable`](tenure_core::ErrorKind::Unavailable) if
    /// the server does not answer the first question. A worker that waits already goes on to wait.
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) with the reason
    /// [`Closed`](tenure_core::Reason::Closed) if the locks are closed meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing claimed.
    pub async fn next(&self) -> Result<ClaimedDocument<T>> {
        if self.open.waiting.load(Ordering::Relaxed) == 0
            && let Some(job) = self.try_next().await?
        {
            return Ok(job);
        }
        let _waiting = WaitingWorker::new(&self.open.waiting);
        let mut turn = self.open.turn.lock().await;
        let arrivals = match &mut *turn {
            Some(arrivals) => arrivals,
            none => none.insert(self.collection.backend.arrivals(&self.open.claiming.filter)),
        };
        let can_push = self.collection.locks.guarantees().push;
        let (backend, filter) = (&self.collection.backend, &self.open.claiming.filter);
        let mut worker = if can_push {
            Some(arrivals.listen(self.collection.backend.host()).await)
        } else {
            None
        };
        // After looks without a result a worker asks first whether a document is free, which writes
        // nothing.
        let (mut vain, mut claims) = (0, true);
        loop {
            // Subscribe first, then look: a document that comes in between is noticed.
            if let Some(worker) = &mut worker {
                worker.know();
            }
            if claims && let Some(job) = answered(self.try_next().await)?.flatten() {
                return Ok(job);
            }
            // If the server does not answer, a document may be free.
            let due = answered(backend.next_due(filter.clone(), LOOK_AGAIN).await)?;
            let due = due.unwrap_or(Some(Duration::ZERO));
            let is_free = due == Some(Duration::ZERO);
            if is_free && !claims {
                claims = true;
                continue;
            }
            let is_told = worker.as_ref().is_some_and(|worker| !worker.is_refused());
            let longest = if is_told { LOOK_AGAIN } else { REST_MAX };
            let pause = due.map_or(longest, |due| (due + LATER).min(longest));
            let rest = (REST_FIRST * 2_u32.pow(vain)).min(REST_MAX);
            let rest = jitter(rest, backend.host().random());
            let rest = if is_free { rest } else { rest.min(pause) };
            backend.host().sleep(rest).await;
            if is_free || worker.as_ref().is_some_and(Worker::has_rung) {
                (vain, claims) = ((vain + 1).min(DOUBLES_MAX), false);
                continue;
            }
            (vain, claims) = (0, true);
            let nap = backend.host().sleep(pause.saturating_sub(rest));
            match &mut worker {
                Some(worker) => {
                    let rung = std::pin::pin!(worker.rung());
                    drop(futures_util::future::select(rung, nap).await);
                }
                None => nap.await,
            }
        }
    }

    /// Claims the first document that matches and is free within this time. Returns `None` if there
    /// was none.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub async fn next_within(&self, time: Duration) -> Result<Option<ClaimedDocument<T>>> {
        self.collection.backend.host().ready()?;
        let began = Instant::now();
        let nap = self.collection.backend.host().sleep(time);
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

impl<T> fmt::Debug for DocumentQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentQueue")
            .field("claiming", &self.open.claiming)
            .finish_non_exhaustive()
    }
}

/// Returns the answer, or `None` if the server gave none.
fn answered<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Err(error) if error.is_retryable() => {
            tracing::debug!(%error, "a worker that waits for a document asks again");
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// Counts a waiting worker until it is dropped.
struct WaitingWorker<'a>(&'a AtomicUsize);

impl<'a> WaitingWorker<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for WaitingWorker<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
