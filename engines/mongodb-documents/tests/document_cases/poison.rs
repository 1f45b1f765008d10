//! Poison: documents that match a queue and cannot be locked, read or named. A queue passes over
//! each of them, and claims the documents behind it.

use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use mongodb::{Client, Collection};
use tenure_core::ErrorKind;
use tenure_mongodb_documents::DocumentLocks;
use tenure_servers::mongodb::Server;

use super::shop::{Shop, order, patient};
use super::stage::play;

/// Good documents behind the poison, in the order of their `_id`.
const GOOD: [i32; 4] = [1001, 1002, 1003, 1004];

/// A collection in which this document matches first, on a server of its own.
async fn with_poison(poison: Document) -> (Server, Collection<Document>, DocumentLocks<Document>) {
    let server = Server::start().unwrap();
    let client = Client::with_uri_str(server.url()).await.unwrap();
    let all = client.database("tenure").collection::<Document>("jobs");
    all.insert_one(poison).await.unwrap();
    let good = GOOD.map(|id| doc! { "_id": id, "state": "new", "at": 2 });
    all.insert_many(good).await.unwrap();
    let url = format!("{}&collection=jobs&timeout=20s", server.url());
    let locks = patient().connect(url).await.unwrap();
    (server, all, locks)
}

/// The good documents are done, and what cannot be done is held by no worker.
async fn is_passed_over(all: &Collection<Document>, locks: &DocumentLocks<Document>) {
    let queue = locks.queue(doc! { "state": "new" }).order(doc! { "at": 1, "_id": 1 });
    for id in GOOD {
        let job = queue.next().await.unwrap();
        assert_eq!(job.document().get_i32("_id").unwrap(), id);
        job.done(doc! { "$set": { "state": "done" } }).await.unwrap();
    }
    assert!(queue.try_next().await.unwrap().is_none(), "the poison is not claimed");
    let held = doc! { "_tenure.held.0": { "$exists": true } };
    assert_eq!(all.count_documents(held).await.unwrap(), 0, "no worker holds it");
    let left = doc! { "state": "new" };
    assert_eq!(all.count_documents(left).await.unwrap(), 1, "it is kept as it was");
}

#[test]
fn a_document_without_room_for_a_lock_is_passed_over() {
    play(async || {
        let (_server, all, locks) = with_poison(doc! { "_id": 1, "at": 1 }).await;
        // A single write must fit into the small cache of a test's server.
        let longest = 16 * 1024 * 1024 - 200;
        for part in 0..8 {
            let more = doc! { "$set": { format!("film{part}"): "x".repeat(longest / 8) } };
            all.update_one(doc! { "_id": 1 }, more).await.unwrap();
        }
        all.update_one(doc! { "_id": 1 }, doc! { "$set": { "state": "new" } }).await.unwrap();
        is_passed_over(&all, &locks).await;
    });
}

#[test]
fn a_document_that_no_longer_passes_the_validator_is_passed_over() {
    play(async || {
        let (_server, all, locks) = with_poison(doc! { "_id": 1, "at": 1, "state": "new" }).await;
        all.update_many(doc! { "at": 2 }, doc! { "$set": { "title": "x" } }).await.unwrap();
        let validator = doc! { "$jsonSchema": { "required": ["title"] } };
        let command = doc! { "collMod": "jobs", "validator": validator };
        all.client().database("tenure").run_command(command).await.unwrap();
        is_passed_over(&all, &locks).await;
        // A document that passes again is claimed when its rest is over. A client that has not seen
        // it before claims it at once.
        all.update_one(doc! { "_id": 1 }, doc! { "$set": { "title": "x" } }).await.unwrap();
        let other = patient().over(&all).await.unwrap();
        let job = other.queue(doc! { "state": "new" }).try_next().await.unwrap();
        job.expect("it can be locked").done(doc! { "$set": { "state": "x" } }).await.unwrap();
    });
}

#[test]
fn a_document_whose_id_is_no_name_of_a_lock_is_passed_over() {
    for id in ["x".repeat(1170).into(), Bson::MaxKey, Bson::MinKey, Bson::Symbol("x".to_owned())] {
        play(async || {
            let (_server, all, locks) =
                with_poison(doc! { "_id": id, "at": 1, "state": "new" }).await;
            is_passed_over(&all, &locks).await;
        });
    }
}

#[test]
fn documents_that_are_not_what_their_type_says_are_passed_over_and_put_off() {
    play(async || {
        let shop = Shop::open().await;
        let all = shop.orders.clone_with_type::<Document>();
        for id in [7, 8] {
            all.insert_one(doc! { "_id": id, "state": "new", "total": "no number" }).await.unwrap();
        }
        let queue = shop.here.queue(doc! { "state": "new" }).order(doc! { "_id": 1 });
        let next = queue.next().await.unwrap();
        assert_eq!(next.document().id, 42);
        assert!(queue.try_next().await.unwrap().is_none());
        let there = shop.there.queue(doc! { "state": "new" });
        assert!(there.try_next().await.unwrap().is_none(), "they are put off for all workers");
        drop(next);
    });
}

/// The change of `done` is refused each time, and the document comes first in the order.
#[test]
fn a_document_whose_last_change_is_refused_is_put_off_for_all_workers() {
    play(async || {
        let (_server, all, locks) = with_poison(doc! { "_id": 1, "at": 1, "state": "new" }).await;
        let validator = doc! { "state": { "$in": ["new", "done"] } };
        let command = doc! { "collMod": "jobs", "validator": validator };
        all.client().database("tenure").run_command(command).await.unwrap();
        let jobs = |locks: &DocumentLocks<Document>| {
            locks.queue(doc! { "state": "new" }).order(doc! { "at": 1, "_id": 1 })
        };
        let refused: [(Document, ErrorKind); 2] = [
            (doc! { "$set": { "state": "odd" } }, ErrorKind::Rejected),
            (doc! { "$set": { "_tenure": 1 } }, ErrorKind::Invalid),
        ];
        let there = patient().over(&all).await.unwrap();
        for ((update, kind), id) in refused.into_iter().zip([1, GOOD[0]]) {
            let job = jobs(&locks).try_next().await.unwrap().unwrap();
            assert_eq!(job.document().get_i32("_id").unwrap(), id);
            let error = job.done(update).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error:?}");
            let next = jobs(&there).try_next().await.unwrap().expect("others are free");
            assert!(next.document().get_i32("_id").unwrap() > id, "it rests");
            next.release().await.unwrap();
            let found = all.find_one(doc! { "_id": id }).await.unwrap().unwrap();
            assert_eq!(found.get_str("state").unwrap(), "new");
            assert!(found.get_document("_tenure").unwrap().get_array("held").unwrap().is_empty());
        }
    });
}

#[test]
fn a_type_that_fits_no_document_is_an_error() {
    play(async || {
        let shop = Shop::open().await;
        let all = shop.orders.clone_with_type::<Document>();
        let odd = (100..200).map(|id| doc! { "_id": id, "state": "odd", "total": "no number" });
        all.insert_many(odd).await.unwrap();
        let queue = shop.here.queue(doc! { "state": "odd" }).order(doc! { "_id": 1 });
        let error = queue.try_next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        let says = error.to_string();
        assert!(says.contains("is not what its type says"), "{says}");
        assert!(!says.contains("BSON error") && !says.ends_with('.'), "{says}");
        shop.orders.insert_one(order(1)).await.unwrap();
    });
}

#[test]
fn a_validator_that_no_document_passes_is_an_error() {
    play(async || {
        let (_server, all, locks) = with_poison(doc! { "_id": 1, "at": 1, "state": "new" }).await;
        let many = (0..100).map(|id| doc! { "_id": 2000 + id, "at": 1, "state": "new" });
        all.insert_many(many).await.unwrap();
        let validator = doc! { "$jsonSchema": { "required": ["title"] } };
        let command = doc! { "collMod": "jobs", "validator": validator };
        all.client().database("tenure").run_command(command).await.unwrap();
        let queue = locks.queue(doc! { "state": "new" });
        let error = queue.next_within(Duration::from_secs(60)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.to_string().contains("validator"), "{error}");
    });
}
