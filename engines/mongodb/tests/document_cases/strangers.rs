//! Strangers: somebody who knows of no lock writes to a document that is locked.

use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use tenure_core::Kind;
use tenure_mongodb::documents::DocumentGuard;

use super::shop::{Order, Shop, order};
use super::stage::{play, soon};

/// A holder whose client listens, told by nobody but the stream: no heartbeat falls into the story.
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

/// The holder is told, its writes are refused, and the next one has a greater number.
async fn is_lost(shop: &Shop, guard: DocumentGuard<Order>, after: impl AsyncFnOnce()) {
    let (held, token) = (guard.held(), guard.token());
    let lost = tokio::spawn(async move { held.lost().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    after().await;
    soon("the holder is told by the stream", lost).await.unwrap();
    let error = guard.update(doc! { "$set": { "state": "late" } }).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Lost, "{error:?}");
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
    for meddles in [
        doc! { "$unset": { "_tenure": "" } },
        doc! { "$set": { "_tenure.held": [] } },
        doc! { "$set": { "_tenure": "nonsense" } },
    ] {
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
        // Somebody read the whole document before, and writes it back now.
        let all = shop.orders.clone_with_type::<Document>();
        all.replace_one(doc! { "_id": 42 }, older).await.unwrap();
        let error = second.update(doc! { "$set": { "state": "late" } }).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Lost, "{error:?}");
        assert!(old.check().is_err(), "it was released, and stays so");
        let ghost = shop.here.document(42).line().await.unwrap().remove(0);
        shop.here
            .locks()
            .force_out(shop.here.document(42).key().unwrap(), ghost.0.id)
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
        let theirs: [Bson; 3] = [
            doc! { "held": { "by": "x" } }.into(),
            doc! { "held": "x" }.into(),
            doc! { "held": [{ "by": "x" }] }.into(),
        ];
        for theirs in theirs {
            shop.meddle(42, doc! { "$set": { "_tenure": theirs.clone() } }).await;
            for shelf in [&shop.here, &shop.there] {
                let error = shelf.document(42).try_lock().await.expect_err("it is refused");
                assert_eq!(error.kind(), Kind::Rejected, "{theirs}: {error:?}");
                assert!(error.to_string().contains("cannot be read"), "{theirs}: {error}");
            }
            let claimed = shop.here.queue(doc! { "_id": 42 }).try_next().await.unwrap();
            assert!(claimed.is_none(), "{theirs}");
            assert_eq!(shop.raw(42).await.unwrap().get("_tenure"), Some(&theirs));
        }
    });
}
