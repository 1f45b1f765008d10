//! Writes that an old holder cannot make: documents of your own MongoDB, changed under a token.
//!
//! A lock cannot stop a holder that is paused between its check and its write, and wakes up when
//! somebody else holds the lock. Its token can: it is older than the new holder's. A [`Fence`]
//! remembers, in a record beside your documents, the newest token it has seen. It refuses a write with
//! an older one, and the check and the write are one transaction.
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
//! // What belongs together is one transaction.
//! let bills = shop.collection::<Document>("bills");
//! let billed = [Write::delete_one(&orders, doc! { "_id": 42 }), Write::insert(&bills, &doc! { "order": 42 })?];
//! fence.write(billed, guard.token()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! It works on any MongoDB that has transactions, whatever store keeps the lock. A refused write is an
//! error of the kind [`Lost`](tenure_core::ErrorKind::Lost): stop, somebody newer is at work. [`Stale::of`] tells
//! how new.
//!
//! # How to use it
//!
//! * **One lock, one fence.** Tokens of different locks do not compare. Whoever writes the documents takes
//!   the same lock, and uses a fence of the same name in the same database.
//! * **Claim before the first read.** A holder that reads, and only later writes, has worked on what
//!   an old holder may still change in between. From the claim on, no older write gets in.
//! * **Every write through the fence.** A plain `update_one` asks nobody.
//! * **What belongs together goes into one [`write`](Fence::write).** Two guarded writes are two steps.
//! * **Exclusive locks only**: a mutex, a write lock, an election. Two readers, or two holders of a
//!   semaphore, hold at once with different tokens, and the newer would shut out the older.
//!
//! # What is not promised
//!
//! * **A fence orders holders, not the writes of one holder.** The same token may write again, and a
//!   write whose answer was lost may have been done. Writes of one holder go one after the other:
//!   each touches the fence's record, and two at once would only make each other begin again.
//! * **A holder that is frozen inside a transaction holds up newer ones** that touch the same documents, until
//!   the server ends its transaction: `transactionLifetimeLimitSeconds`, one minute if nobody set it. They
//!   wait, or are told that there was no answer; nobody's write gets past the fence.
//! * **A server that belongs to no replica set has no transactions**: every write is refused with a
//!   sentence. A replica set may have a single member.
//! * **A lock that moves to another store gets other numbers.** Theirs may be smaller, and then all are
//!   refused: take a new name for the fence, or delete its record while nobody writes.
//!
//! Writes and claims are confirmed by a majority, with the journal, and read the primary, whatever the
//! defaults of the client are. Where access is limited, the user needs `find`, `insert` and `update` on the
//! collection [`RECORDS`], and what the writes themselves need.

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
use tenure_core::{Error, Key, Result, check_token};

/// The driver, whose databases, collections and sessions a [`Fence`] takes.
pub use mongodb;
pub use tenure_core::Stale;
pub use write::{Write, Written};

/// The collection that has a record for each fence.
pub const RECORDS: &str = "tenure_fences";
/// How long a guarded write may take, if [`Fence::within`] does not say otherwise.
pub const WITHIN_DEFAULT: Duration = Duration::from_secs(10);
/// The longest time that [`Fence::within`] takes.
pub const WITHIN_MAX: Duration = Duration::from_secs(600);

/// The newest token that has been seen where something is written, under a name.
///
/// ```text
///   holder 41 ──claim──▶ ┌──────────┐
///                        │ seen: 41 │
///   holder 42 ──claim──▶ │ seen: 42 │
///                        │          │ ──write──▶ documents
///   holder 41 ──write──╳ └──────────┘
/// ```
///
/// It keeps nothing in this process, and needs no clean-up. A clone is the same fence.
#[derive(Clone, Debug)]
pub struct Fence {
    name: Key,
    id: String,
    records: Collection<Document>,
    within: Duration,
}

impl Fence {
    /// The fence of this name in this database, for everybody who uses the name.
    ///
    /// Any non-empty string of up to [`KEY_BYTES_MAX`](tenure_core::KEY_BYTES_MAX) bytes will do, and distinct
    /// strings are distinct fences.
    pub fn new(database: &Database, name: impl AsRef<str>) -> Result<Self> {
        let name = Key::new(name)?;
        let id = name.canonical("tenure.fence");
        let records = database.collection(RECORDS);
        Ok(Self { name, id, records, within: WITHIN_DEFAULT })
    }

    /// Gives up a write or a claim that took this long, with its repetitions: ten seconds at first.
    pub fn within(self, limit: Duration) -> Result<Self> {
        if limit.is_zero() || limit > WITHIN_MAX {
            return Err(Error::invalid(format!(
                "a guarded write cannot be given {limit:?}: choose more than nothing, and at most {WITHIN_MAX:?}"
            )));
        }
        Ok(Self { within: limit, ..self })
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The `_id` of its record in the collection [`RECORDS`]. To delete that record is to forget.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Raises the newest token to this one, so that no older holder writes any more.
    ///
    /// Do it before the first read. The same token may claim again; an older one is refused.
    pub async fn claim(&self, token: u64) -> Result<()> {
        let raised = self.raise(token, None);
        match tokio::time::timeout(self.within, raised).await {
            Ok(raised) => raised.map_err(|failed| failed.told(true)),
            Err(_) => Err(trouble::silent(self.within, true)),
        }
    }

    /// Does all of these in one transaction with the check of the token: all of them, or none.
    ///
    /// A transaction that meets another one is done again from its beginning, as the server asks. An error
    /// of one write takes back those before it.
    ///
    /// # Cancel safety
    ///
    /// As with every verb here: a future that is dropped after it was polled may have been done.
    pub async fn write(
        &self,
        writes: impl IntoIterator<Item = Write>,
        token: u64,
    ) -> Result<Written> {
        check_token(token)?;
        let writes: Vec<Write> = writes.into_iter().collect();
        transaction::run(self, token, &writes).await
    }

    /// Inserts a document, and answers its `_id`.
    pub async fn insert_one<T: Serialize + Send + Sync>(
        &self,
        collection: &Collection<T>,
        document: &T,
        token: u64,
    ) -> Result<Bson> {
        let done = self.write([Write::insert(collection, document)?], token).await?;
        Ok(done.inserted.into_iter().next().unwrap_or_default())
    }

    /// Updates the first document that matches, by operators or by a pipeline.
    pub async fn update_one<T: Send + Sync>(
        &self,
        collection: &Collection<T>,
        filter: Document,
        update: impl Into<UpdateModifications>,
        token: u64,
    ) -> Result<Written> {
        self.write([Write::update_one(collection, filter, update)], token).await
    }

    /// Replaces the first document that matches.
    pub async fn replace_one<T: Serialize + Send + Sync>(
        &self,
        collection: &Collection<T>,
        filter: Document,
        replacement: &T,
        token: u64,
    ) -> Result<Written> {
        self.write([Write::replace_one(collection, filter, replacement)?], token).await
    }

    /// Deletes the first document that matches, and tells whether there was one.
    pub async fn delete_one<T: Send + Sync>(
        &self,
        collection: &Collection<T>,
        filter: Document,
        token: u64,
    ) -> Result<bool> {
        let done = self.write([Write::delete_one(collection, filter)], token).await?;
        Ok(done.deleted > 0)
    }

    /// Raises the record to this token, and looks who is newer, in one step.
    ///
    /// The record changes even if the token is equal: so no transaction of an older token that has
    /// already read the record can commit beside it.
    async fn raise(
        &self,
        token: u64,
        session: Option<&mut ClientSession>,
    ) -> Result<(), trouble::Failed> {
        check_token(token).map_err(trouble::Failed::Final)?;
        let own = i64::try_from(token).expect("numbers end far below");
        let raised = doc! { "$max": ["$token", own] };
        let writes = doc! { "$add": [{ "$ifNull": ["$writes", 0_i64] }, 1_i64] };
        let name = doc! { "$literal": self.name() };
        let raise = vec![doc! { "$set": { "name": name, "token": raised, "writes": writes } }];
        let call = self.records.find_one_and_update(doc! { "_id": &self.id }, raise);
        let options = FindOneAndUpdateOptions::builder()
            .upsert(true)
            .return_document(ReturnDocument::After)
            .projection(doc! { "_id": 0, "token": 1 })
            // A transaction has its own, and none is allowed inside.
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
                Err(trouble::Failed::Final(Stale { token, newest }.into()))
            }
            _ => Err(trouble::Failed::Final(trouble::foreign(self.name()))),
        }
    }
}

/// A majority has it, in its journal: no fail-over takes it back.
fn majority() -> WriteConcern {
    let mut concern = WriteConcern::majority();
    concern.journal = Some(true);
    concern
}
