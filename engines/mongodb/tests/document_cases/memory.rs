//! Memory: documents without a server are locked in the same way.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use tenure_core::ErrorKind;
use tenure_core::blocking::block_on;
use tenure_mongodb::documents::{DocumentLocks, Documents, MemoryDocuments, Update};

use super::shop::{Line, Order, Part, line, long_order, order, part};

fn shop(documents: Documents) -> (MemoryDocuments, DocumentLocks<Order>, DocumentLocks<Order>) {
    let memory = MemoryDocuments::new();
    memory.insert(&order(42)).unwrap();
    memory.insert(&long_order(43, 3)).unwrap();
    let here = documents.clone().in_memory(&memory);
    let there = documents.in_memory(&memory);
    (memory, here, there)
}

#[test]
fn a_holder_reads_and_changes_a_document_in_every_way() {
    let (memory, here, there) = shop(Documents::new());
    block_on(async {
        let mut guard = here.document(42).lock().await.unwrap();
        assert_eq!(*guard.document(), order(42));
        assert!(there.document(42_i64).try_lock().await.unwrap().is_none());
        guard.update(doc! { "$inc": { "total": 5 }, "$set": { "state": "a" } }).await.unwrap();
        assert_eq!(guard.refresh().await.unwrap().total, 15);
        guard.replace(Order { total: 7, ..order(42) }).await.unwrap();
        let refused = guard.update(doc! { "$set": { "_tenure": 1 } }).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        let refused = guard.update(vec![doc! { "$set": { "total": 1 } }]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let token = guard.token();
        guard.release_with(doc! { "$set": { "state": "b" } }).await.unwrap();
        assert_eq!(
            memory.find::<Order>(42).unwrap().unwrap(),
            Order { state: "b".to_owned(), total: 7, ..order(42) }
        );
        let next = there.document(42).lock().await.unwrap();
        assert!(next.token() > token);
        next.delete().await.unwrap();
        assert!(memory.find::<Order>(42).unwrap().is_none());
        let error = here.document(42).lock().await.unwrap_err();
        assert!(error.to_string().contains("there is no document 42"), "{error}");
    });
}

#[test]
fn what_a_document_or_a_part_is_found_by_stays_as_it_is() {
    let (memory, here, _there) = shop(Documents::new());
    block_on(async {
        let mut guard = here.document(42).lock().await.unwrap();
        let error = guard.replace(order(43)).await.unwrap_err();
        assert!(error.to_string().contains("an _id cannot be changed"), "{error}");
        guard.release().await.unwrap();
        assert_eq!(memory.find::<Order>(42).unwrap().unwrap(), order(42));
        let mut guard = here.part::<Line>(43, line(1)).lock().await.unwrap();
        let error = guard.update(doc! { "$set": { "sku": 7 } }).await.unwrap_err();
        assert!(error.to_string().contains("lock the document or part around it"), "{error}");
        let other = Line { sku: 7, ..long_order(43, 1).lines.remove(0) };
        assert_eq!(guard.replace(other).await.unwrap_err().kind(), ErrorKind::Invalid);
        guard.replace(Line { sku: 1, quantity: 3, parts: Vec::new() }).await.unwrap();
        assert_eq!(guard.refresh().await.unwrap().quantity, 3);
        guard.release().await.unwrap();
    });
}

#[test]
fn who_waits_reads_what_the_holder_left() {
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
fn what_was_taken_away_or_replaced_is_lost_and_not_changed() {
    let (memory, here, there) = shop(Documents::new());
    block_on(async {
        let guard = here.document(42).lock().await.unwrap();
        let lock = there.document(42);
        lock.break_ticket(guard.id()).await.unwrap();
        guard.lost().await;
        drop(guard);
        here.locks().flush().await;
        let guard = here.document(42).lock().await.unwrap();
        memory.update(42, &doc! { "$set": { "state": "seen" } }).unwrap();
        guard.update(doc! { "$inc": { "total": 1 } }).await.unwrap();
        memory.replace(&Order { state: "other".to_owned(), ..order(42) }).unwrap();
        guard.lost().await;
        let error = guard.update(doc! { "$set": { "state": "late" } }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
        assert_eq!(memory.find::<Order>(42).unwrap().unwrap().state, "other");
        assert!(there.document(42).try_lock().await.unwrap().is_some());
    });
}

#[test]
fn parts_lock_independently_and_two_paths_to_one_part_are_one_lock() {
    let (memory, here, there) = shop(Documents::new());
    block_on(async {
        let one = here.part::<Line>(43, line(1)).lock().await.unwrap();
        let other = tenure_mongodb::documents::Path::field("lines")
            .element_where(doc! { "sku": 1.0, "quantity": 1 });
        assert!(there.part::<Line>(43, other).try_lock().await.unwrap().is_none());
        let inner = there.part::<Part>(43, part(1, 7)).lock().await.unwrap();
        inner.update(doc! { "$set": { "at": "truck" } }).await.unwrap();
        one.update(doc! { "$inc": { "quantity": 1 } }).await.unwrap();
        let mut wanted = long_order(43, 3);
        (wanted.lines[1].quantity, wanted.lines[1].parts[0].at) = (2, "truck".to_owned());
        assert_eq!(memory.find::<Order>(43).unwrap().unwrap(), wanted);
        memory.update(43, &doc! { "$pull": { "lines": { "sku": 1 } } }).unwrap();
        one.lost().await;
        let many = here.part::<Line>(43, "lines.$[quantity = 1]".parse().unwrap());
        let error = many.lock().await.unwrap_err();
        assert!(error.to_string().contains("more than one"), "{error}");
    });
}

#[test]
fn together_a_whole_waits_for_its_parts() {
    let (_memory, here, there) = shop(Documents::new().together());
    block_on(async {
        let inner = here.part::<Part>(43, part(1, 7)).lock().await.unwrap();
        assert!(there.document(43).try_lock().await.unwrap().is_none());
        assert!(there.part::<Part>(43, part(1, 8)).try_lock().await.unwrap().is_some());
        inner.release().await.unwrap();
        there.locks().flush().await;
        assert!(there.document(43).try_lock().await.unwrap().is_some());
    });
}

#[test]
fn together_several_parts_are_locked_at_once() {
    let (memory, here, there) = shop(Documents::new().together());
    block_on(async {
        let both = here.parts::<Line>(43, [line(2), line(1)]).lock().await.unwrap();
        assert!(there.part::<Line>(43, line(1)).try_lock().await.unwrap().is_none());
        assert!(there.document(43).try_lock().await.unwrap().is_none());
        for guard in both {
            guard.release_with(doc! { "$inc": { "quantity": 5 } }).await.unwrap();
        }
        let lines = memory.find::<Order>(43).unwrap().unwrap().lines;
        assert_eq!(lines.iter().map(|line| line.quantity).collect::<Vec<_>>(), [1, 6, 6]);
        assert!(there.document(43).try_lock().await.unwrap().is_some());
        let twice = here.parts::<Line>(43, [line(1), line(1)]).lock().await.unwrap_err();
        assert_eq!(twice.kind(), ErrorKind::Invalid, "{twice:?}");
        let filters = Update::new(doc! { "$set": { "lines.$[one].quantity": 1 } });
        let filters = filters.array_filters([doc! { "one.sku": 1 }]);
        let whole = here.document(43).lock().await.unwrap();
        assert_eq!(whole.update(filters).await.unwrap_err().kind(), ErrorKind::Unsupported);
    });
}

#[test]
fn a_queue_gives_each_document_to_one_worker() {
    let (memory, here, there) = shop(Documents::new());
    block_on(async {
        let of = |locks: &DocumentLocks<Order>| {
            locks.queue(doc! { "state": "new" }).order(doc! { "_id": -1 })
        };
        let (one, other) = (of(&here), of(&there));
        let first = one.try_next().await.unwrap().unwrap();
        let second = other.try_next().await.unwrap().unwrap();
        assert_eq!((first.document().id, second.document().id), (43, 42));
        assert!(one.try_next().await.unwrap().is_none());
        first.done(doc! { "$set": { "state": "done" } }).await.unwrap();
        second.retry_later(Duration::from_millis(50)).await.unwrap();
        assert!(one.try_next().await.unwrap().is_none());
        let again = one.next().await.unwrap();
        assert_eq!(again.document().id, 42);
        again.done(doc! { "$set": { "state": "done" } }).await.unwrap();
        let (next, ()) = futures_util::future::join(one.next(), async {
            memory.insert(&order(44)).unwrap();
        })
        .await;
        next.unwrap().delete().await.unwrap();
        assert!(memory.find::<Order>(44).unwrap().is_none());
    });
}

#[test]
fn what_stands_in_the_place_of_a_lock_and_is_none_is_refused_and_kept() {
    let memory = MemoryDocuments::new();
    memory.insert(&doc! { "_id": 1, "_tenure": "nonsense" }).unwrap();
    memory.insert(&doc! { "_id": 2, "_tenure": null }).unwrap();
    let locks: DocumentLocks<Document> = Documents::new().in_memory(&memory);
    block_on(async {
        let refused = locks.document(1).try_lock().await.unwrap_err();
        let said = refused.to_string();
        assert_eq!(refused.kind(), ErrorKind::Rejected, "{said}");
        assert!(said.contains("cannot be read") && said.contains("`_tenure`"), "{said}");
        assert_eq!(locks.document(1).line().await.unwrap_err().kind(), ErrorKind::Rejected);
        let job = locks.queue(doc! {}).try_next().await.unwrap().expect("one is free");
        assert_eq!(job.document().get_i32("_id").unwrap(), 2);
        assert!(locks.queue(doc! {}).try_next().await.unwrap().is_none());
        assert_eq!(
            locks.document(1).lock().await.unwrap_err().kind(),
            ErrorKind::Rejected,
            "it is kept"
        );
    });
}

#[test]
fn a_document_that_a_server_had_with_nobody_in_its_line_is_locked() {
    let memory = MemoryDocuments::new();
    let idle = doc! { "last": 7_i64, "at": 5_i64, "held": [], "waiting": [] };
    let taken = doc! { "last": 7_i64, "held": [{ "id": "x" }], "waiting": [] };
    for (id, line) in [(1, doc! {}), (2, idle), (3, taken)] {
        memory.insert(&doc! { "_id": id, "_tenure": line }).unwrap();
    }
    let locks: DocumentLocks<Document> = Documents::new().in_memory(&memory);
    block_on(async {
        for id in [1, 2] {
            let guard = locks.document(id).try_lock().await.unwrap().expect("it is free");
            assert!(locks.document(id).try_lock().await.unwrap().is_none());
            guard.release().await.unwrap();
        }
        assert_eq!(locks.document(3).try_lock().await.unwrap_err().kind(), ErrorKind::Rejected);
    });
}
