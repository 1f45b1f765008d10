//! Writes to documents in MongoDB that an old holder of a lock cannot make, because its token is
//! old.
//!
//! A lock cannot stop a holder that is paused between its check and its write and resumes after
//! another holder took over. Its token can: it is older than the new holder's. A [`Fence`]
//! remembers the newest token that it has seen, in a record beside your documents. It refuses a
//! write with an older token. The check and the write are one transaction.
//!
//! ```no_run
//! use tenure_fence_mongodb::{Fence, Write};
//! use tenure_fence_mongodb::mongodb::bson::{Document, doc};
//!
//! # async fn run(locks: tenure_core::Locks, client: mongodb::Client) -> tenure_core::Result<()> {
//! let shop = client.database("shop");
//! let orders = shop.collection::<Document>("orders");
//! let fence = Fence::new(&shop, "orders/42")?;
//!
//! let guard = locks.mutex("orders/42").lock().await?;
//! fence.claim(guard.token()).await?;                                   // before the first read
//! let paid = doc! { "$set": { "state": "paid" } };
//! fence.update_one(&orders, doc! { "_id": 42 }, paid, guard.token()).await?;
//!
//! // Writes that belong together are one transaction.
//! let bills = shop.collection::<Document>("bills");
//! let done = Write::delete_one(&orders, doc! { "_id": 42 });
//! let billed = Write::insert(&bills, &doc! { "order": 42 })?;
//! fence.write([done, billed], guard.token()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A fence works on any MongoDB that has transactions, and for locks of any store. A refused write
//! is an error of the kind [`Lost`](tenure_core::ErrorKind::Lost): stop, a newer holder is at work.
//! [`Stale::of`] returns the newer token.
//!
//! # How to use it
//!
//! * **One lock, one fence.** Tokens of different locks do not compare. All programs that write the
//!   documents take the same lock, and use a fence of the same name in the same database.
//! * **Claim before the first read.** Without a claim, an old holder can change the documents
//!   between the read and the write of the new holder. After the claim the fence refuses older
//!   writes.
//! * **Every write through the fence.** A plain `update_one` does not check the token.
//! * **One [`write`](Fence::write) for changes that belong together.** Two guarded writes are two
//!   transactions.
//! * **Exclusive locks only**: a mutex, a write lock, an election. Readers and
//!   holders of permits hold at the same time, so they have no token.
//!
//! # What is not promised
//!
//! * **A fence orders holders, not the writes of one holder.** The same token may write again, and
//!   a write whose answer was lost may have been done. A holder should write one after the other:
//!   two writes at once change the same record, and one of them has to begin again.
//! * **A holder that is frozen inside a transaction blocks newer holders** that touch the same
//!   documents, until the server aborts the transaction: after `transactionLifetimeLimitSeconds`,
//!   one minute by default. The newer holders wait, or get an error that there was no answer. No
//!   old write gets past the fence.
//! * **A server outside a replica set has no transactions**, and every write is refused with an
//!   error that says so. A replica set may have a single member.
//! * **A lock that moves to another store gets other tokens.** They may be smaller, and then the
//!   fence refuses all of them. Choose a new name for the fence, or delete its record while no
//!   program writes.
//!
//! Writes and claims are confirmed by a majority with the journal, and read the primary. The
//! defaults of the client do not matter. With access control the user needs `find`, `insert` and
//! `update` on the collection [`RECORDS`], and the rights that the writes themselves need.

mod transaction;
mod trouble;
mod write;

use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{
    FindOneAndUpdateOptions, ReturnDocument, UpdateModifications, WriteConcern,
};
use mongodb::{ClientSession, Collection, Database};
use serde::Serialize;
use tenure_core::{Error, Key, Result, Token};

/// The driver, whose databases, collections and sessions a [`Fence`] uses.
pub use mongodb;
pub use tenure_core::Stale;
pub use write::{Write, WriteResult};

/// The collection with one record for each fence.
pub const RECORDS: &str = "tenure_fences";
/// Default time limit of a guarded write.
pub const WITHIN_DEFAULT: Duration = Duration::from_secs(10);
/// Maximum time limit that [`Fence::within`] accepts.
pub const WITHIN_MAX: Duration = Duration::from_secs(600);

/// A fence: a named record of the newest token, which every guarded write checks.
///
/// ```text
///   holder 41 ──claim──▶ ┌──────────┐
///                        │ seen: 41 │
///   holder 42 ──claim──▶ │ seen: 42 │
///                        │          │ ──write──▶ documents
///   holder 41 ──write──╳ └──────────┘
/// ```
///
/// It has no state in this process, and needs no clean-up. A clone is the same fence.
#[derive(Clone, Debug)]
pub struct Fence {
    name: Key,
    id: String,
    records: Collection<Document>,
    within: Duration,
}

impl Fence {
    /// Returns the fence of this name in this database. All programs that use the name share it.
    ///
    /// A name is any non-empty string of up to [`KEY_BYTES_MAX`](tenure_core::KEY_BYTES_MAX) bytes.
    /// Distinct strings are distinct fences.
    ///
    /// # Errors
    ///
    /// The name is empty or too long.
    pub fn new(database: &Database, name: impl AsRef<str>) -> Result<Self> {
        let name = Key::new(name)?;
        let id = name.canonical("tenure.fence");
        let records = database.collection(RECORDS);
        Ok(Self { name, id, records, within: WITHIN_DEFAULT })
    }

    /// Sets the time limit of a write or a claim with all its repetitions.
    ///
    /// # Errors
    ///
    /// The limit is zero, or above [`WITHIN_MAX`].
    pub fn within(self, limit: Duration) -> Result<Self> {
        if limit.is_zero() || limit > WITHIN_MAX {
            return Err(Error::invalid(format!(
                "a guarded write cannot have a time limit of {limit:?}: choose more than zero, and at most {WITHIN_MAX:?}"
            )));
        }
        Ok(Self { within: limit, ..self })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the `_id` of the record in the collection [`RECORDS`]. Deleting that record makes
    /// the fence forget its newest token.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Raises the newest token to this one, so that the fence refuses writes of older holders.
    ///
    /// Call it before the first read. The same token may claim again.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if a newer token was seen, with [`Stale`] as the
    /// cause. `Unavailable` if there was no answer: the claim may be done or not.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after it was polled, the claim may be done or not.
    pub async fn claim(&self, token: Token) -> Result<()> {
        let raised = self.raise(token, None);
        match tokio::time::timeout(self.within, raised).await {
            Ok(raised) => raised.map_err(|failed| failed.into_error(true)),
            Err(_) => Err(trouble::silent(self.within, true)),
        }
    }

    /// Executes all writes in one transaction with the check of the token: all of them, or none.
    ///
    /// A transaction that conflicts with another one begins again, as the server asks. An error of
    /// one write rolls back the earlier ones.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if a newer token was seen, with [`Stale`] as the
    /// cause. Other errors say whether nothing was changed or the writes may be done or not.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after it was polled, the writes may be done or not.
    pub async fn write(
        &self,
        writes: impl IntoIterator<Item = Write>,
        token: Token,
    ) -> Result<WriteResult> {
        let writes: Vec<Write> = writes.into_iter().collect();
        transaction::run(self, token, &writes).await
    }

    /// Inserts a document, and returns its `_id`.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write). `Invalid` if the value cannot be serialized as a document.
    pub async fn insert_one<T: Serialize + Send + Sync>(
        &self,
        collection: &Collection<T>,
        document: &T,
        token: Token,
    ) -> Result<Bson> {
        let done = self.write([Write::insert(collection, document)?], token).await?;
        Ok(done.inserted.into_iter().next().unwrap_or_default())
    }

    /// Updates the first document that matches, by operators or by a pipeline.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub async fn update_one<T: Send + Sync>(
        &self,
        collection: &Collection<T>,
        filter: Document,
        update: impl Into<UpdateModifications>,
        token: Token,
    ) -> Result<WriteResult> {
        self.write([Write::update_one(collection, filter, update)], token).await
    }

    /// Replaces the first document that matches.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write). `Invalid` if the value cannot be serialized as a document.
    pub async fn replace_one<T: Serialize + Send + Sync>(
        &self,
        collection: &Collection<T>,
        filter: Document,
        replacement: &T,
        token: Token,
    ) -> Result<WriteResult> {
        self.write([Write::replace_one(collection, filter, replacement)?], token).await
    }

    /// Deletes the first document that matches, and returns whether there was one.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub async fn delete_one<T: Send + Sync>(
        &self,
        collection: &Collection<T>,
        filter: Document,
        token: Token,
    ) -> Result<bool> {
        let done = self.write([Write::delete_one(collection, filter)], token).await?;
        Ok(done.deleted > 0)
    }

    /// Raises the record to this token, and checks for a newer one, in one step.
    ///
    /// The record changes even if the token is equal. A transaction with an older token that has
    /// already read the record can then no longer commit.
    async fn raise(
        &self,
        token: Token,
        session: Option<&mut ClientSession>,
    ) -> Result<(), trouble::Failed> {
        let own = i64::try_from(token.get()).expect("a token is below 2^53");
        let raised = doc! { "$max": ["$token", own] };
        let writes = doc! { "$add": [{ "$ifNull": ["$writes", 0_i64] }, 1_i64] };
        let name = doc! { "$literal": self.name() };
        let raise = vec![doc! { "$set": { "name": name, "token": raised, "writes": writes } }];
        let call = self.records.find_one_and_update(doc! { "_id": &self.id }, raise);
        let options = FindOneAndUpdateOptions::builder()
            .upsert(true)
            .return_document(ReturnDocument::After)
            .projection(doc! { "_id": 0, "token": 1 })
            // A transaction has its own write concern. The server refuses another one inside.
            .write_concern(session.is_none().then(majority))
            .build();
        let call = call.with_options(options);
        let record = match session {
            Some(session) => call.session(session).await?,
            None => call.await?,
        };
        match record.as_ref().and_then(|record| record.get("token")) {
            Some(Bson::Int64(newest)) if *newest <= own => Ok(()),
            Some(Bson::Int64(newest)) => {
                let newest = newest.unsigned_abs();
                Err(trouble::Failed::Final(Stale { token: token.get(), newest }.into()))
            }
            _ => Err(trouble::Failed::Final(trouble::foreign(self.name()))),
        }
    }
}

/// The write concern of a majority with the journal: a failover does not roll back such a write.
fn majority() -> WriteConcern {
    let mut concern = WriteConcern::majority();
    concern.journal = Some(true);
    concern
}
