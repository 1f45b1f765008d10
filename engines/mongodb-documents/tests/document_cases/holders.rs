//! Holders: how they are notified about their lock, and which of their writes are made.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{join_all, pending};
use mongodb::bson::doc;
use tenure_core::ErrorKind;
use tenure_mongodb_documents::Documents;

use super::shop::{Part, Shop, long_order, part};
use super::stage::{play, soon};

#[test]
fn changes_that_are_asked_for_at_the_same_time_are_all_made() {
    play(async || {
        let shop = Shop::open().await;
        let guard = shop.here.document(42).lock().await.unwrap();
        let changes = (0..20).map(|_| guard.update(doc! { "$inc": { "total": 1 } }));
        for change in join_all(changes).await {
            change.unwrap();
        }
        assert_eq!(shop.seen(42).await.total, 30);
        guard.release().await.unwrap();
    });
}

#[test]
fn hierarchical_all_that_a_holder_asks_of_its_lock_is_about_what_is_around_it_too() {
    play(async || {
        let shop = Shop::open_with(Documents::new().hierarchical()).await;
        shop.orders.insert_one(long_order(43, 1)).await.unwrap();
        let writer = shop.here.part::<Part>(43, part(0, 7)).lock().await.unwrap();
        let reader = shop.here.part::<Part>(43, part(0, 8)).read().await.unwrap();
        assert_eq!(writer.run(async { 7 }).await.unwrap(), 7);
        writer.extend().await.unwrap();
        let whole = shop.there.document(43);
        for ticket in whole.line().await.unwrap() {
            shop.there.locks().force_unlock(whole.key().unwrap(), ticket.id).await.unwrap();
        }
        let whole = whole.lock().await.unwrap();
        let stopped = soon("the work is stopped", writer.run(pending::<()>())).await;
        assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Lost);
        soon("the reader is told", reader.lost()).await;
        assert_eq!(writer.check().unwrap_err().kind(), ErrorKind::Lost);
        assert_eq!(reader.check().unwrap_err().kind(), ErrorKind::Lost);
        assert_eq!(reader.extend().await.unwrap_err().kind(), ErrorKind::Lost);
        assert_eq!(reader.remaining(), Some(Duration::ZERO));
        whole.release().await.unwrap();
    });
}

#[test]
fn a_release_with_a_change_is_no_loss_although_its_caller_hears_of_it_late() {
    const TTL: Duration = Duration::from_secs(4);
    play(async || {
        let shop = Shop::open().await;
        let guard = shop.here.document(42).ttl(TTL).lock().await.unwrap();
        let held = guard.held();
        let mut released = pin!(guard.release_with(doc! { "$inc": { "total": 1 } }));
        assert!(released.as_mut().now_or_never().is_none());
        // The caller's thread has no time for the answer, and a renewal is due meanwhile.
        std::thread::sleep(TTL / 2);
        released.await.unwrap();
        assert_eq!(held.ended().await, None, "it was not lost");
        assert_eq!(shop.seen(42).await.total, 11);
        let guard = shop.here.document(42).ttl(TTL).lock().await.unwrap();
        let mut released = pin!(guard.release_with(doc! { "$inc": { "total": 1 } }));
        assert!(released.as_mut().now_or_never().is_none());
        std::thread::sleep(TTL * 2);
        released.await.unwrap();
        assert_eq!(shop.seen(42).await.total, 12);
    });
}
