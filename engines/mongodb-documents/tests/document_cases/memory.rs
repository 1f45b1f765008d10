//! Memory: a unit test of a program locks documents without a server, in the same way.

use std::time::Duration;

use mongodb::bson::doc;
use tenure_core::blocking::block_on;
use tenure_core::{ErrorKind, Result};
use tenure_mongodb_documents::{DocumentLocks, Documents, MemoryDocuments, Update};

use super::shop::{Line, Order, line, long_order, order};

fn shop(documents: Documents) -> (MemoryDocuments, DocumentLocks<Order>, DocumentLocks<Order>) {
    let memory = MemoryDocuments::new();
    memory.insert(&order(42)).unwrap();
    memory.insert(&long_order(43, 3)).unwrap();
    let here = documents.clone().in_memory(&memory);
    let there = documents.in_memory(&memory);
    (memory, here, there)
}

#[test]
fn a_holder_reads_and_changes_a_document() {
    let (memory, here, there) = shop(Documents::new());
    block_on(async {
        let mut guard = here.document(42).lock().await.unwrap();
        assert_eq!(*guard.document(), order(42));
        assert!(there.document(42_i64).try_lock().await.unwrap().is_none(), "it is one number");
        guard.update(doc! { "$inc": { "total": 5 }, "$set": { "state": "a" } }).await.unwrap();
        assert_eq!(guard.refresh().await.unwrap().total, 15);
        guard.replace(Order { total: 7, ..order(42) }).await.unwrap();
        let token = guard.token();
        guard.release_with(doc! { "$set": { "state": "b" } }).await.unwrap();
        let wanted = Order { state: "b".to_owned(), total: 7, ..order(42) };
        assert_eq!(memory.find::<Order>(42).unwrap().unwrap(), wanted);
        let next = there.document(42).lock().await.unwrap();
        assert!(next.token() > token);
        next.update(doc! { "$unset": { "lines": 1 } }).await.unwrap();
        let error = here.document(44).lock().await.unwrap_err();
        assert!(error.to_string().contains("there is no document 44"), "{error}");
    });
}

#[test]
fn operators_change_inner_fields_and_refused_ones_change_nothing() {
    let memory = MemoryDocuments::new();
    memory.insert(&doc! { "_id": 1, "a": { "b": 1, "c": 2 }, "d": 0.5 }).unwrap();
    let locks: DocumentLocks<mongodb::bson::Document> = Documents::new().in_memory(&memory);
    block_on(async {
        let guard = locks.document(1).lock().await.unwrap();
        let change = doc! { "$inc": { "a.b": 2_i64, "d": 1, "n": 3 }, "$set": { "e.f": true }, "$unset": { "a.c": 1, "x.y": 1 } };
        guard.update(change).await.unwrap();
        let wanted = doc! { "_id": 1, "a": { "b": 3_i64 }, "d": 1.5, "n": 3, "e": { "f": true } };
        assert_eq!(memory.find(1).unwrap(), Some(wanted.clone()));
        for refused in [
            doc! { "$set": { "a.b": 0, "a.b.c": 1 } },
            doc! { "$set": { "d": 0 }, "$inc": { "e": 1 } },
            doc! { "$set": { "_id": 2 } },
            doc! { "$set": { "_tenure": 1 } },
            doc! { "d": 0 },
        ] {
            guard.update(refused.clone()).await.expect_err(&refused.to_string());
            assert_eq!(memory.find(1).unwrap(), Some(wanted.clone()), "{refused}");
        }
    });
}

#[test]
fn an_id_stays_as_it_is() {
    let (memory, here, _there) = shop(Documents::new());
    block_on(async {
        let mut guard = here.document(42).lock().await.unwrap();
        let error = guard.replace(order(43)).await.unwrap_err();
        assert!(error.to_string().contains("an _id cannot be changed"), "{error}");
        guard.release().await.unwrap();
        assert_eq!(memory.find::<Order>(42).unwrap().unwrap(), order(42));
    });
}

#[test]
fn a_waiter_reads_what_the_holder_left() {
    let (_memory, here, there) = shop(Documents::new());
    block_on(async {
        let guard = here.document(42).lock().await.unwrap();
        let lock = there.document(42);
        let (next, ()) = futures_util::future::join(lock.lock(), async {
            while lock.line().await.unwrap().len() < 2 {
                std::thread::yield_now();
            }
            guard.update(doc! { "$set": { "state": "left" } }).await.unwrap();
            guard.release().await.unwrap();
        })
        .await;
        assert_eq!(next.unwrap().document().state, "left");
    });
}

#[test]
fn a_broken_lock_is_lost_and_changes_nothing() {
    let (memory, here, there) = shop(Documents::new());
    block_on(async {
        let guard = here.document(42).lock().await.unwrap();
        there.document(42).break_ticket(guard.id()).await.unwrap();
        guard.lost().await;
        let error = guard.update(doc! { "$set": { "state": "late" } }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
        drop(guard);
        here.locks().flush().await;
        assert_eq!(memory.find::<Order>(42).unwrap().unwrap(), order(42));
        assert!(there.document(42).try_lock().await.unwrap().is_some());
    });
}

#[test]
fn readers_hold_together_and_read_the_named_fields() {
    let memory = MemoryDocuments::new();
    memory.insert(&order(42)).unwrap();
    let documents = Documents::new().only(["state"]).unwrap();
    let locks: DocumentLocks<mongodb::bson::Document> = documents.in_memory(&memory);
    block_on(async {
        let one = locks.document(42).read().await.unwrap();
        let other = locks.document(42).try_read().await.unwrap().expect("readers hold together");
        assert_eq!(*one.document(), doc! { "state": "new" });
        assert!(locks.document(42).try_lock().await.unwrap().is_none());
        drop((one, other));
    });
}

#[test]
fn a_queue_gives_each_document_to_one_worker() {
    let (memory, here, there) = shop(Documents::new());
    block_on(async {
        let of =
            |locks: &DocumentLocks<Order>| locks.queue(doc! { "state": "new", "total": 10_i64 });
        let (one, other) = (of(&here), of(&there));
        let first = one.try_next().await.unwrap().unwrap();
        let second = other.try_next().await.unwrap().unwrap();
        assert_eq!((first.document().id, second.document().id), (42, 43));
        assert!(one.try_next().await.unwrap().is_none());
        first.done(doc! { "$set": { "state": "done" } }).await.unwrap();
        second.release().await.unwrap();
        let again = one.next().await.unwrap();
        assert_eq!(again.document().id, 43);
        again.done(doc! { "$set": { "state": "done" } }).await.unwrap();
        let (next, ()) = futures_util::future::join(one.next(), async {
            memory.insert(&order(44)).unwrap();
        })
        .await;
        assert_eq!(next.unwrap().document().id, 44);
    });
}

/// All that documents in memory do not have is refused by the same sentence.
#[test]
fn all_else_is_refused_and_changes_nothing() {
    let (memory, here, _there) = shop(Documents::new());
    block_on(async {
        let is_refused = |what: Result<()>| {
            let error = what.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
            assert!(error.to_string().contains("documents in memory have no"), "{error}");
        };
        is_refused(here.part::<Line>(43, line(1)).lock().await.map(drop));
        is_refused(here.parts::<Line>(43, [line(1), line(2)]).lock().await.map(drop));
        is_refused(here.document(42).routed(doc! { "region": "eu" }).lock().await.map(drop));
        let queue = |filter| here.queue(filter);
        is_refused(queue(doc! { "total": { "$gt": 1 } }).try_next().await.map(drop));
        is_refused(queue(doc! { "$or": [{ "total": 1 }] }).try_next().await.map(drop));
        is_refused(queue(doc! {}).order(doc! { "_id": 1 }).try_next().await.map(drop));
        let job = queue(doc! {}).try_next().await.unwrap().unwrap();
        is_refused(job.retry_later(Duration::from_secs(1)).await);
        let guard = here.document(42).lock().await.unwrap();
        is_refused(guard.update(doc! { "$push": { "lines": 1 } }).await);
        is_refused(guard.update(vec![doc! { "$set": { "total": 1 } }]).await);
        let filtered = Update::new(doc! { "$set": { "lines.$[one].quantity": 1 } });
        is_refused(guard.update(filtered.array_filters([doc! { "one.sku": 1 }])).await);
        is_refused(guard.delete().await);
        assert_eq!(memory.find::<Order>(42).unwrap().unwrap(), order(42));
    });
}
