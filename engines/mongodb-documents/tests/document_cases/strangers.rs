//! Strangers: programs without locks that write to a locked document.

use std::time::Duration;

use mongodb::bson::{Bson, Document, bson, doc};
use tenure_core::{ErrorKind, Loss, NUMBER_MAX, Reason};
use tenure_mongodb_documents::{DocumentGuard, Documents};
use tokio::task::JoinHandle;

use super::shop::{Line, Order, Shop, line, long_order, order};
use super::stage::{play, soon};

/// Returns a guard whose client listens. Only the stream can notify it: no heartbeat falls into the
/// test.
async fn listening(shop: &Shop) -> DocumentGuard<Order> {
    let guard = shop.here.document(42).ttl(Duration::from_secs(3600)).lock().await.unwrap();
    shop.orders.insert_one(order(1000)).await.unwrap();
    let front = shop.there.document(1000).lock().await.unwrap();
    let lock = shop.here.document(1000);
    let next = tokio::spawn(async move { lock.lock().await });
    while shop.there.document(1000).line().await.unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    front.release().await.unwrap();
    soon("it is handed over", next).await.unwrap().unwrap().release().await.unwrap();
    guard
}

/// Starts to wait for a holder's loss.
fn hears(guard: &DocumentGuard<Order>) -> JoinHandle<Loss> {
    let held = guard.held();
    tokio::spawn(async move { held.lost().await })
}

/// Asserts that the holder is notified, that its writes are refused, and that the next holder has a
/// greater number.
async fn is_lost(shop: &Shop, guard: DocumentGuard<Order>, after: impl AsyncFnOnce()) {
    let token = guard.token();
    let lost = hears(&guard);
    after().await;
    soon("the holder hears of it", lost).await.unwrap();
    let error = guard.update(doc! { "$set": { "state": "late" } }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
    if let Some(before) = shop.raw(42).await {
        assert_ne!(before.get_str("state").unwrap(), "late");
        let next = shop.there.document(42).lock().await.unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
    }
}

#[test]
fn fields_that_somebody_sets_change_nothing_of_the_lock() {
    play(async || {
        let shop = Shop::open().await;
        let guard = listening(&shop).await;
        shop.meddle(42, doc! { "$set": { "state": "seen", "total": 3_i64 } }).await;
        shop.meddle(42, doc! { "$set": { "lines": [{ "sku": 1, "quantity": 1_i64 }] } }).await;
        guard.update(doc! { "$inc": { "total": 1 } }).await.unwrap();
        assert!(shop.there.document(42).try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
        let seen = shop.seen(42).await;
        assert_eq!((seen.state.as_str(), seen.total, seen.lines.len()), ("seen", 4, 1));
    });
}

#[test]
fn a_document_that_somebody_replaces_ends_the_lock_and_the_holder_is_told() {
    play(async || {
        let shop = Shop::open().await;
        let guard = listening(&shop).await;
        Box::pin(is_lost(&shop, guard, async || {
            let new = Order { state: "other".to_owned(), ..order(42) };
            shop.orders.replace_one(doc! { "_id": 42 }, new).await.unwrap();
        }))
        .await;
    });
}

#[test]
fn a_document_that_somebody_deletes_ends_the_lock_and_the_holder_is_told() {
    play(async || {
        let shop = Shop::open().await;
        let guard = listening(&shop).await;
        Box::pin(is_lost(&shop, guard, async || {
            shop.orders.delete_one(doc! { "_id": 42 }).await.unwrap();
        }))
        .await;
    });
}

#[test]
fn a_lock_that_somebody_removes_or_empties_is_lost_and_the_holder_is_told() {
    for meddles in [doc! { "$unset": { "_tenure": "" } }, doc! { "$set": { "_tenure.held": [] } }] {
        play(async || {
            let shop = Shop::open().await;
            let guard = listening(&shop).await;
            Box::pin(is_lost(&shop, guard, async || shop.meddle(42, meddles).await)).await;
        });
    }
}

#[test]
fn a_collection_that_somebody_drops_takes_the_locks_along() {
    play(async || {
        let shop = Shop::open().await;
        let guard = listening(&shop).await;
        Box::pin(is_lost(&shop, guard, async || shop.orders.drop().await.unwrap())).await;
    });
}

#[test]
fn a_document_that_is_written_back_with_an_old_lock_gives_nobody_a_second_hold() {
    play(async || {
        let shop = Shop::open().await;
        let first = shop.here.document(42).lock().await.unwrap();
        let older: Document = shop.raw(42).await.unwrap();
        let (old_token, old) = (first.token(), first.held());
        first.release().await.unwrap();
        let second = shop.there.document(42).lock().await.unwrap();
        // Another program read the whole document before, and writes it back now.
        let all = shop.orders.clone_with_type::<Document>();
        all.replace_one(doc! { "_id": 42 }, older).await.unwrap();
        let error = second.update(doc! { "$set": { "state": "late" } }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
        assert!(old.check().is_err(), "it was released, and stays so");
        let ghost = shop.here.document(42).line().await.unwrap().remove(0);
        shop.here
            .locks()
            .force_unlock(shop.here.document(42).key().unwrap(), ghost.id)
            .await
            .unwrap();
        let next = shop.here.document(42).lock().await.unwrap();
        assert!(next.token() > second.token() && second.token() > old_token);
        next.release().await.unwrap();
    });
}

#[test]
fn a_line_that_cannot_be_read_is_refused_and_kept() {
    play(async || {
        let shop = Shop::open().await;
        let theirs: [Bson; 4] = [
            doc! { "held": [{ "take": 1_i64, "ends": f64::NAN }] }.into(),
            doc! { "held": { "by": "x" } }.into(),
            doc! { "held": "x" }.into(),
            doc! { "held": [{ "by": "x" }] }.into(),
        ];
        for theirs in theirs {
            shop.meddle(42, doc! { "$set": { "_tenure": theirs.clone() } }).await;
            for shelf in [&shop.here, &shop.there] {
                let error = shelf.document(42).try_lock().await.expect_err("it is refused");
                assert_eq!(error.kind(), ErrorKind::Rejected, "{theirs}: {error:?}");
                assert!(error.to_string().contains("cannot be read"), "{theirs}: {error}");
            }
            let claimed = shop.here.queue(doc! { "_id": 42 }).try_next().await.unwrap();
            assert!(claimed.is_none(), "{theirs}");
            let kept = shop.raw(42).await.unwrap().get("_tenure").cloned();
            assert_eq!(format!("{kept:?}"), format!("{:?}", Some(&theirs)));
        }
    });
}

/// Values that are no line, and may be written in the place of one.
fn foreign() -> [Bson; 6] {
    ["nonsense".into(), 7.into(), true.into(), bson!([]), bson!([{ "held": [] }]), bson!([null])]
}

/// Asserts that opening is refused as unreadable, with the place in the message.
fn is_refused<T>(theirs: &Bson, opened: tenure_core::Result<T>) {
    let error = opened.err().unwrap_or_else(|| panic!("{theirs} is refused"));
    let said = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{theirs}: {said}");
    let is_told = said.contains("cannot be read") && said.contains("`_tenure`");
    assert!(is_told && said.contains("42") && said.contains("orders"), "{theirs}: {said}");
}

// It is not known whether the field is the program's own, or which ticket held there. The next
// ticket would write over it.
#[test]
fn what_somebody_writes_over_a_lock_ends_it_and_is_kept() {
    for theirs in foreign() {
        play(async || {
            let shop = Shop::open().await;
            let guard = listening(&shop).await;
            let lost = hears(&guard);
            shop.meddle(42, doc! { "$set": { "_tenure": theirs.clone() } }).await;
            soon("the holder hears of it", lost).await.unwrap();
            let error = guard.update(doc! { "$set": { "state": "late" } }).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
            assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
            for shelf in [&shop.here, &shop.there] {
                is_refused(&theirs, shelf.document(42).try_lock().await);
                is_refused(&theirs, shelf.document(42).lock().await);
                is_refused(&theirs, shelf.document(42).line().await);
            }
            let claimed = shop.here.queue(doc! { "_id": 42 }).try_next().await.unwrap();
            assert!(claimed.is_none(), "{theirs}");
            let kept = shop.raw(42).await.unwrap();
            assert_eq!(
                (kept.get("_tenure"), kept.get_str("state").unwrap()),
                (Some(&theirs), "new")
            );
            shop.meddle(42, doc! { "$set": { "_tenure": null } }).await;
            shop.there.document(42).lock().await.unwrap().release().await.unwrap();
        });
    }
}

#[test]
fn a_document_whose_lock_has_no_number_left_is_not_claimed() {
    play(async || {
        let shop = Shop::open().await;
        let most = i64::try_from(NUMBER_MAX).unwrap();
        for (last, at) in [(most, 5), (5, most / 1000 + 1)] {
            let line = doc! { "held": [], "waiting": [], "last": last, "at": at, "step": 1_i64 };
            shop.meddle(42, doc! { "$set": { "_tenure": line } }).await;
            let claimed = shop.here.queue(doc! { "_id": 42 }).try_next().await.unwrap();
            assert!(claimed.is_none(), "{last} {at}");
            let error = shop.here.document(42).try_lock().await.map(drop).unwrap_err();
            assert_eq!(error.reason(), Some(Reason::NumbersUsedUp), "{error}");
        }
    });
}

#[test]
fn what_somebody_writes_over_the_lock_of_a_part_ends_it_and_is_kept() {
    for theirs in foreign() {
        play(async || {
            let shop = Shop::open().await;
            shop.orders.replace_one(doc! { "_id": 42 }, long_order(42, 3)).await.unwrap();
            let guard = shop.here.part::<Line>(42, line(1)).lock().await.unwrap();
            shop.meddle(42, doc! { "$set": { "lines.1._tenure": theirs.clone() } }).await;
            assert_eq!(guard.extend().await.unwrap_err().kind(), ErrorKind::Lost);
            assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
            for shelf in [&shop.here, &shop.there] {
                is_refused(&theirs, shelf.part::<Line>(42, line(1)).try_lock().await);
                shelf.part::<Line>(42, line(2)).lock().await.unwrap().release().await.unwrap();
            }
            let lines = shop.raw(42).await.unwrap();
            let lines = lines.get_array("lines").unwrap();
            assert_eq!(lines[1].as_document().unwrap().get("_tenure"), Some(&theirs));
        });
    }
}

#[test]
fn what_somebody_writes_over_the_steps_of_all_parts_is_kept() {
    for theirs in foreign() {
        play(async || {
            let shop = Shop::open().await;
            shop.orders.replace_one(doc! { "_id": 42 }, long_order(42, 3)).await.unwrap();
            let mut guard = shop.here.part::<Line>(42, line(1)).lock().await.unwrap();
            shop.meddle(42, doc! { "$set": { "_tenure": theirs.clone() } }).await;
            is_refused(&theirs, shop.there.part::<Line>(42, line(2)).lock().await);
            is_refused(&theirs, guard.refresh().await);
            guard.update(doc! { "$set": { "quantity": 9_i64 } }).await.unwrap();
            let last = vec![doc! { "$set": { "quantity": 7_i64 } }];
            is_refused(&theirs, guard.release_with(last).await);
            let kept = shop.raw(42).await.unwrap();
            assert_eq!(kept.get("_tenure"), Some(&theirs));
            assert_eq!(shop.seen(42).await.lines[1].quantity, 9);
        });
    }
}

#[test]
fn a_document_that_is_made_when_it_is_locked_is_not_made_over_one_that_cannot_be_read() {
    play(async || {
        let shop = Shop::open_with(Documents::new().or_insert(&order(0)).unwrap()).await;
        for theirs in foreign() {
            shop.meddle(42, doc! { "$set": { "_tenure": theirs.clone() } }).await;
            let lock = shop.here.document(42);
            let joins = (0..40).map(|_| lock.try_lock());
            for refused in futures_util::future::join_all(joins).await {
                is_refused(&theirs, refused);
            }
            assert_eq!(shop.raw(42).await.unwrap().get("_tenure"), Some(&theirs));
        }
    });
}

// One document of another program must not stop the work on all others.
#[test]
fn a_queue_waits_beside_documents_that_cannot_be_read() {
    play(async || {
        let shop = Shop::open().await;
        let mut theirs = foreign().to_vec();
        theirs.extend([
            bson!({ "not_before": "noon" }),
            bson!({ "at": "noon" }),
            bson!({ "held": "x" }),
            bson!({ "waiting": [{ "ends": "noon" }] }),
        ]);
        for (at, theirs) in (100..).zip(&theirs) {
            shop.orders.insert_one(order(at)).await.unwrap();
            shop.meddle(at, doc! { "$set": { "_tenure": theirs.clone() } }).await;
        }
        let queue = shop.here.queue(doc! { "_id": { "$gte": 100 } });
        let none = queue.next_within(Duration::from_millis(100)).await.unwrap();
        assert!(none.is_none(), "{none:?}");
        let waits = tokio::spawn(async move { queue.next().await });
        shop.orders.insert_one(order(1000)).await.unwrap();
        let job = soon("the readable one is claimed", waits).await.unwrap().unwrap();
        assert_eq!(job.document().id, 1000);
        job.delete().await.unwrap();
        for (at, theirs) in (100..).zip(&theirs) {
            assert_eq!(shop.raw(at).await.unwrap().get("_tenure"), Some(theirs));
        }
    });
}

#[test]
fn a_transaction_of_a_stranger_that_stays_open_costs_the_lock_and_gives_it_to_no_other_client() {
    play(async || {
        let (_server, shop) = Shop::open_alone().await;
        let guard = shop.here.document(42).ttl(Duration::from_secs(3)).lock().await.unwrap();
        let mut session = shop.orders.client().start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let change = doc! { "$set": { "state": "seen" } };
        let write = shop.orders.update_one(doc! { "_id": 42 }, change);
        write.session(&mut session).await.unwrap();
        let held = guard.held();
        soon("no renewal gets in", async move { held.lost().await }).await;
        let other = shop.there.document(42).try_lock().await;
        assert_eq!(
            other.map(drop).unwrap_err().kind(),
            ErrorKind::Unavailable,
            "no other client gets it"
        );
        session.commit_transaction().await.unwrap();
        let next = soon("the next one gets it", shop.there.document(42).lock()).await.unwrap();
        assert_eq!(next.document().state, "seen");
        let error = guard.update(doc! { "$set": { "state": "late" } }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
        next.release().await.unwrap();
    });
}
