//! The floor: the fewest commands of a lock and of a hand-over, by the same driver.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mongodb::bson::{Document, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ChangeStreamEvent;
use mongodb::options::{Acknowledgment, CollectionOptions, WriteConcern};
use mongodb::{Client, Collection};
use tokio::sync::Mutex;

use crate::contest::contender::{Contender, FAILS, Held, Later};

/// A collection of the bench, with the write concern of the engine: the journal of a majority.
pub(super) async fn collection(url: &str, name: &str) -> Collection<Document> {
    let safe = WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build();
    let options = CollectionOptions::builder().write_concern(safe).build();
    let client = Client::with_uri_str(url).await.unwrap();
    client.database("bench").collection_with_options(name, options)
}

/// A lock without line, token, ttl, renewal or loss: two updates by id.
pub(crate) struct Floor {
    records: Collection<Document>,
    attempts: AtomicU64,
}

impl Floor {
    pub(crate) async fn connect(url: &str) -> Self {
        Self { records: collection(url, "floor").await, attempts: AtomicU64::default() }
    }
}

impl Contender for Floor {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let id = format!("{:08x}{attempt:024x}", std::process::id());
            let records = self.records.clone();
            let take = records
                .find_one_and_update(doc! { "_id": key }, doc! { "$set": { "owner": &id } })
                .projection(doc! { "owner": 1 })
                .upsert(true);
            if take.await.unwrap().is_some_and(|before| before.contains_key("owner")) {
                return Err(FAILS.into());
            }
            let key = key.to_owned();
            let release = Box::pin(async move {
                let let_go = records
                    .find_one_and_update(
                        doc! { "_id": key, "owner": id },
                        doc! { "$unset": { "owner": "" } },
                    )
                    .projection(doc! { "_id": 1 });
                assert!(let_go.await.unwrap().is_some(), "the record has this owner");
            });
            Ok(Held { token: None, release })
        })
    }
}

/// An update that two processes make for each other: the side whose change stream reports it holds.
pub(crate) struct Hop {
    records: Collection<Document>,
    inbox: Mutex<ChangeStream<ChangeStreamEvent<Document>>>,
    other: &'static str,
    /// Whether this side holds at the start.
    first: AtomicBool,
}

impl Hop {
    pub(crate) async fn connect(url: &str, side: usize) -> Self {
        let [own, other] = if side == 0 { ["0", "1"] } else { ["1", "0"] };
        let records = collection(url, "hop").await;
        for record in [own, other] {
            // The second side finds the record, so no change stream reports an update.
            let birth = doc! { "$setOnInsert": { "count": 0_i64 } };
            records.update_one(doc! { "_id": record }, birth).upsert(true).await.unwrap();
        }
        let of_own = doc! { "$match": { "documentKey._id": own, "operationType": "update" } };
        let inbox = Mutex::new(records.watch().pipeline([of_own]).await.unwrap());
        Self { records, inbox, other, first: AtomicBool::new(side == 0) }
    }
}

impl Contender for Hop {
    fn lock<'a>(&'a self, _key: &'a str) -> Later<'a, Result<Held, String>> {
        Box::pin(async move {
            if !self.first.swap(false, Ordering::Relaxed) {
                let mut inbox = self.inbox.lock().await;
                while inbox.next_if_any().await.unwrap().is_none() {}
            }
            let (records, other) = (self.records.clone(), self.other);
            let release = Box::pin(async move {
                records.update_one(doc! { "_id": other }, bump()).await.unwrap();
            });
            Ok(Held { token: None, release })
        })
    }
}

fn bump() -> Document {
    doc! { "$inc": { "count": 1_i64 } }
}
