//! Wrong requests: each is refused by one sentence with the way out.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mongodb::bson::{Document, doc};
use tenure_core::ErrorKind;
use tenure_mongodb_documents::{Documents, Path};

use super::shop::{Line, Order, Shop, line, long_order, patient};
use super::stage::play;

#[test]
fn what_cannot_be_read_alone_is_refused() {
    for odd in ["", "a.b", "$a", "_tenure"] {
        let error = Documents::new().only([odd]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
    }
    let error = Documents::new().only(["state"]).unwrap().field("state").unwrap_err();
    assert!(error.to_string().contains("`state` cannot be read"), "{error}");
}

#[test]
fn a_shard_key_names_values() {
    play(async || {
        let shop = Shop::open().await;
        let all = shop.orders.clone_with_type::<Document>();
        all.insert_one(doc! { "_id": 7, "region": "us" }).await.unwrap();
        let locks = patient().over(&all).await.unwrap();
        let other = locks.document(7).routed(doc! { "region": { "$ne": "eu" } });
        assert_eq!(
            other.lock().await.unwrap_err().kind(),
            ErrorKind::Rejected,
            "there is no such document"
        );
        for odd in [doc! { "$where": "true" }, doc! { "_id": 42 }] {
            let error = locks.document(7).routed(odd).lock().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        }
        let late = locks.document(7).ttl(Duration::from_secs(9)).routed(doc! { "region": "us" });
        assert!(late.lock().await.unwrap_err().to_string().contains("say `routed` first"));
        locks
            .document(7)
            .routed(doc! { "region": "us" })
            .lock()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    });
}

#[test]
fn a_document_with_a_shard_key_is_filled_when_it_is_made_and_no_other() {
    play(async || {
        let shop = Shop::open().await;
        let all = shop.orders.clone_with_type::<Document>();
        all.insert_one(doc! { "_id": 8 }).await.unwrap();
        let makes = patient().or_insert(&doc! { "state": "fresh" }).unwrap();
        let locks = makes.over(&all).await.unwrap();
        let made = locks.document(7).routed(doc! { "region": "eu" }).lock().await.unwrap();
        let mut seen = made.document().clone();
        assert_eq!(seen.remove("state"), Some("fresh".into()));
        assert_eq!(seen, doc! { "_id": 7, "region": "eu" });
        made.release().await.unwrap();
        let bare = locks.document(8).lock().await.unwrap();
        let next = tokio::spawn({
            let lock = locks.document(8);
            async move { lock.lock().await }
        });
        while locks.document(8).line().await.unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(bare.document(), &doc! { "_id": 8 });
        bare.release().await.unwrap();
        assert_eq!(next.await.unwrap().unwrap().document(), &doc! { "_id": 8 });
        assert!(!shop.raw(7).await.unwrap().to_string().contains('~'));
    });
}

#[test]
fn a_field_that_has_something_else_is_no_place_for_locks() {
    play(async || {
        let shop = Shop::open().await;
        let all = shop.orders.clone_with_type::<Document>();
        let address = doc! { "city": "Bonn" };
        all.insert_one(doc! { "_id": 7, "address": address, "tags": ["a", { "b": 1 }] })
            .await
            .unwrap();
        let before = shop.raw(7).await;
        for field in ["state", "address", "tags"] {
            let opened = patient().field(field).unwrap().over(&all).await;
            let error = opened.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.to_string().contains("name another one by Documents::field"), "{error}");
        }
        assert_eq!(shop.raw(7).await, before);
        shop.here.document(7).line().await.unwrap();
        shop.here.part::<Document>(42, Path::field("none")).try_lock().await.unwrap_err();
        patient().over(&all).await.unwrap();
    });
}

#[test]
fn forty_changes_of_one_document_are_answered_in_time_by_a_server_that_is_silent() {
    const TIMEOUT: Duration = Duration::from_secs(2);
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        shop.orders.insert_one(long_order(43, 40)).await.unwrap();
        let url = format!("{}&timeout=2s", shop.url);
        let locks = Documents::new().connect::<Order>(url).await.unwrap();
        let mut guards = Vec::new();
        for sku in 0..40 {
            guards.push(locks.part::<Line>(43, line(sku)).lock().await.unwrap());
        }
        server.freeze().unwrap();
        let began = Instant::now();
        let changed =
            join_all(guards.iter().map(|guard| guard.update(doc! { "$inc": { "quantity": 1 } })))
                .await;
        let took = began.elapsed();
        server.thaw().unwrap();
        assert!(
            changed
                .iter()
                .all(|changed| changed.as_ref().is_err_and(tenure_core::Error::is_retryable))
        );
        assert!(
            took < TIMEOUT * 3,
            "all attempts of each take twice the time at most, and not {took:?}"
        );
    });
}
