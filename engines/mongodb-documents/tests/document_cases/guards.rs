//! Guards: a lock reads its document in the same command, and changes it only while it is held.

use std::time::Duration;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, bson, doc};
use tenure_core::{ErrorKind, Loss, Reason};
use tenure_mongodb_documents::{Documents, Path, Update};
use tenure_servers::mongodb::doc as server_doc;

use super::shop::{Order, Shop, long_order, order, patient};
use super::stage::{count, play, soon};

#[test]
fn a_lock_reads_its_document_and_both_are_one_command() {
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        let asked = || count(&server, "findAndModify") + count(&server, "find");
        let before = asked();
        let guard = shop.here.document(42).lock().await.unwrap();
        assert_eq!(asked() - before, 1, "to lock and to read");
        assert_eq!(*guard.document(), order(42));
        assert!(shop.there.document(42).try_lock().await.unwrap().is_none());
        let before = asked();
        guard.release().await.unwrap();
        assert_eq!(asked() - before, 1, "to release");
        let next = shop.there.document(42).lock().await.unwrap();
        let raw = shop.raw(42).await.unwrap();
        assert!(
            mongodb::bson::serialize_to_vec(&raw).unwrap().len() < 600,
            "the lock is small: {raw}"
        );
        next.release().await.unwrap();
    });
}

#[test]
fn who_waits_is_woken_and_reads_what_the_holder_left() {
    play(async || {
        let shop = Shop::open().await;
        let guard = shop.here.document(42).lock().await.unwrap();
        let lock = shop.there.document(42);
        let next = tokio::spawn(async move { lock.lock().await });
        while shop.here.document(42).line().await.unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        guard.update(doc! { "$set": { "state": "paid" }, "$inc": { "total": 5 } }).await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        let next = soon("the next one is served", next).await.unwrap().unwrap();
        assert_eq!(*next.document(), Order { state: "paid".to_owned(), total: 15, ..order(42) });
        assert!(next.token() > token);
    });
}

#[test]
fn a_holder_updates_by_operators_and_pipelines_and_replaces_and_the_lock_stays() {
    play(async || {
        let shop = Shop::open().await;
        let mut guard = shop.here.document(42).lock().await.unwrap();
        guard.update(doc! { "$inc": { "total": 1 } }).await.unwrap();
        guard
            .update(vec![doc! { "$set": { "total": { "$multiply": ["$total", 2] } } }])
            .await
            .unwrap();
        let other = doc! { "$mergeObjects": ["$$ROOT", { "state": "other" }] };
        guard.update(vec![doc! { "$replaceWith": other }]).await.unwrap();
        let whole = doc! { "newRoot": { "state": "bare", "total": "$total" } };
        guard.update(vec![doc! { "$replaceRoot": whole }]).await.unwrap();
        guard.update(vec![doc! { "$project": { "state": 1, "total": 1 } }]).await.unwrap();
        guard.update(vec![doc! { "$project": { "lines": 0 } }]).await.unwrap();
        assert_eq!(
            *guard.refresh().await.unwrap(),
            Order { state: "bare".to_owned(), total: 22, ..order(42) }
        );
        guard.replace(Order { total: 7, ..order(42) }).await.unwrap();
        assert_eq!(shop.seen(42).await, Order { total: 7, ..order(42) });
        assert!(
            shop.there.document(42).try_lock().await.unwrap().is_none(),
            "it is held all the time"
        );
        for refused in [
            doc! { "$set": { "_tenure": 1 } },
            doc! { "$unset": { "_tenure.held": "" } },
            doc! { "$rename": { "total": "_tenure" } },
            doc! { "state": "replaced" },
        ] {
            assert_eq!(guard.update(refused).await.unwrap_err().kind(), ErrorKind::Invalid);
        }
        for refused in [
            doc! { "$set": { "_tenure.held": [] } },
            doc! { "$unset": "_tenure" },
            doc! { "$unset": ["total", "_tenure"] },
            doc! { "$project": { "_tenure": 0 } },
            doc! { "$out": "orders" },
        ] {
            assert_eq!(guard.update(vec![refused]).await.unwrap_err().kind(), ErrorKind::Invalid);
        }
        guard.release().await.unwrap();
        assert_eq!(shop.seen(42).await, Order { total: 7, ..order(42) });
    });
}

#[test]
fn a_change_after_the_lock_was_taken_away_is_refused() {
    play(async || {
        let shop = Shop::open().await;
        let mut guard = shop.here.document(42).lock().await.unwrap();
        let lock = shop.there.document(42);
        shop.there.locks().force_unlock(lock.key().unwrap(), guard.id()).await.unwrap();
        let next = lock.lock().await.unwrap();
        let before = shop.seen(42).await;
        let error = guard.update(doc! { "$set": { "state": "late" } }).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.loss()),
            (ErrorKind::Lost, Some(Loss::Broken)),
            "{error:?}"
        );
        for error in [
            guard.update(vec![doc! { "$set": { "state": "late" } }]).await.unwrap_err(),
            guard.replace(order(42)).await.unwrap_err(),
            guard.refresh().await.map(drop).unwrap_err(),
            guard.release_with(doc! { "$set": { "state": "late" } }).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
        }
        assert_eq!(shop.seen(42).await, before, "nothing was changed");
        next.release().await.unwrap();
    });
}

#[test]
fn the_servers_clock_refuses_a_holder_whose_life_is_over_whatever_the_holder_believes() {
    play(async || {
        let shop = Shop::open().await;
        // Its own clock lets it assume the lock for much longer, as if it were paused between its
        // check and its write.
        let guard = shop.here.document(42).manual_renewal().lock().await.unwrap();
        let over = doc! { "$set": { "_tenure.held.0.ends": 1_i64, "_tenure.next_expiry": 1_i64 } };
        shop.meddle(42, over).await;
        guard.check().unwrap();
        let refused = guard.delete().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Lost, "{refused:?}");
        let guard = shop.here.document(42).manual_renewal().lock().await.unwrap();
        let over = doc! { "$set": { "_tenure.held.0.ends": 1_i64, "_tenure.next_expiry": 1_i64 } };
        shop.meddle(42, over).await;
        let refused = guard.update(doc! { "$set": { "state": "late" } }).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Lost, "{refused:?}");
        assert_eq!(shop.seen(42).await, order(42));
    });
}

#[test]
fn a_change_whose_answer_is_lost_is_made_once() {
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        let guard = shop.here.document(42).lock().await.unwrap();
        let unknown = server_doc! { "code": 64, "errmsg": "waiting for replication timed out" };
        let fails = server_doc! { "failCommands": ["findAndModify"], "writeConcernError": unknown };
        for update in 1..=3 {
            server.fail_commands(fails.clone(), 2).unwrap();
            guard.update(doc! { "$inc": { "total": 1 } }).await.unwrap();
            assert_eq!(shop.seen(42).await.total, 10 + update);
        }
        server.fail_commands(fails.clone(), 2).unwrap();
        guard
            .release_with(vec![doc! { "$set": { "total": { "$add": ["$total", 1] } } }])
            .await
            .unwrap();
        assert_eq!(shop.seen(42).await.total, 14);
        let guard = shop.there.document(42).try_lock().await.unwrap().expect("it was released");
        server.fail_commands(fails.clone(), 2).unwrap();
        guard.release_with(doc! { "$inc": { "total": 1 } }).await.unwrap();
        assert_eq!(shop.seen(42).await.total, 15);
        let cut = server_doc! { "failCommands": ["findAndModify"], "closeConnection": true };
        let guard = shop.there.document(42).lock().await.unwrap();
        server.fail_commands(cut, 2).unwrap();
        guard.update(doc! { "$inc": { "total": 1 } }).await.unwrap();
        assert_eq!(shop.seen(42).await.total, 16);
        server.fail_commands(fails.clone(), 2).unwrap();
        guard.delete().await.unwrap();
        assert_eq!(shop.raw(42).await, None);
    });
}

#[test]
fn a_release_carries_the_last_change_in_one_command_and_serves_who_waits() {
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        let asked = || count(&server, "findAndModify");
        for update in [0, 1] {
            let guard = shop.here.document(42).lock().await.unwrap();
            let before = asked();
            if update == 0 {
                guard.release_with(doc! { "$set": { "state": "paid" } }).await.unwrap();
            } else {
                guard.release_with(vec![doc! { "$set": { "state": "sent" } }]).await.unwrap();
            }
            assert_eq!(asked() - before, 1, "to change and to release");
        }
        for pipeline in [true, false] {
            let guard = shop.here.document(42).lock().await.unwrap();
            let lock = shop.there.document(42);
            let next = tokio::spawn(async move { lock.lock().await });
            while shop.here.document(42).line().await.unwrap().len() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let state = format!("left {pipeline}");
            if pipeline {
                guard.release_with(vec![doc! { "$set": { "state": &state } }]).await.unwrap();
            } else {
                guard.release_with(doc! { "$set": { "state": &state } }).await.unwrap();
            }
            let next = soon("the next one is served", next).await.unwrap().unwrap();
            assert_eq!(next.document().state, state);
            next.release().await.unwrap();
        }
    });
}

#[test]
fn a_document_that_is_deleted_under_its_lock_is_gone_and_who_waits_is_told() {
    play(async || {
        let shop = Shop::open().await;
        let guard = shop.here.document(42).lock().await.unwrap();
        let lock = shop.there.document(42);
        let next = tokio::spawn(async move { lock.lock().await });
        while shop.here.document(42).line().await.unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        guard.delete().await.unwrap();
        assert_eq!(shop.raw(42).await, None);
        let error = soon("who waits is told", next).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
        let error = shop.here.document(42).lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.to_string().contains("there is no document 42"), "{error}");
    });
}

#[test]
fn a_document_that_is_not_there_is_inserted_where_that_was_asked() {
    play(async || {
        let shop = Shop::open_with(
            patient().or_insert(&doc! { "state": "fresh", "total": 0_i64 }).unwrap(),
        )
        .await;
        let guard = shop.here.document(43).lock().await.unwrap();
        assert_eq!(*guard.document(), Order { state: "fresh".to_owned(), total: 0, ..order(43) });
        assert!(shop.there.document(43).try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
        let guard = shop.here.document(42).lock().await.unwrap();
        assert_eq!(*guard.document(), order(42), "what is there stays as it is");
    });
}

#[test]
fn an_id_may_be_of_any_kind() {
    play(async || {
        let shop = Shop::open().await;
        let all = shop.orders.clone_with_type::<Document>();
        let ids = [
            bson!("a text with \"quotes\" and \\"),
            bson!(1_i64 << 40),
            bson!(1.5),
            Bson::Null,
            Bson::ObjectId(ObjectId::new()),
            Bson::DateTime(DateTime::now()),
            bson!({ "shop": "berlin", "no": 7 }),
            bson!(true),
        ];
        let locks = patient().over(&all).await.unwrap();
        for id in ids {
            all.insert_one(doc! { "_id": id.clone(), "state": "new" }).await.unwrap();
            let guard = locks.document(id.clone()).lock().await.unwrap();
            assert_eq!(guard.document(), &doc! { "_id": id.clone(), "state": "new" });
            guard.update(doc! { "$set": { "state": "seen" } }).await.unwrap();
            assert!(shop.here.document(id.clone()).try_lock().await.unwrap().is_none(), "{id}");
            guard.release().await.unwrap();
        }
        assert_eq!(all.count_documents(doc! { "state": "seen" }).await.unwrap(), 8);
        let error = locks.document(bson!([1])).lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    });
}

#[test]
fn a_number_is_the_same_document_whatever_its_type() {
    play(async || {
        let shop = Shop::open().await;
        let guard = shop.here.document(42_i64).lock().await.unwrap();
        for id in [bson!(42), bson!(42.0)] {
            assert!(shop.there.document(id).try_lock().await.unwrap().is_none());
        }
        guard.release().await.unwrap();
    });
}

#[test]
fn readers_read_together_and_keep_writers_out() {
    play(async || {
        let shop = Shop::open().await;
        let (one, other) = (
            shop.here.document(42).read().await.unwrap(),
            shop.there.document(42).read().await.unwrap(),
        );
        assert_eq!(one.document(), other.document());
        assert!(shop.here.document(42).try_lock().await.unwrap().is_none());
        one.release().await.unwrap();
        other.release().await.unwrap();
        assert!(shop.here.document(42).try_lock().await.unwrap().is_some());
    });
}

#[test]
fn only_what_was_asked_for_is_read() {
    play(async || {
        let shop = Shop::open_with(Documents::new().only(["state"]).unwrap()).await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let documents = shop.orders.clone_with_type::<Document>();
        let locks = patient().only(["state"]).unwrap().over(&documents).await.unwrap();
        let mut guard = locks.document(43).lock().await.unwrap();
        assert_eq!(guard.document(), &doc! { "state": "new" });
        assert_eq!(guard.refresh().await.unwrap(), &doc! { "state": "new" });
        guard.release().await.unwrap();
        let line = super::shop::line(1);
        let locks = patient().only(["quantity"]).unwrap().over(&documents).await.unwrap();
        let guard = locks.part::<Document>(43, line).lock().await.unwrap();
        assert_eq!(guard.document(), &doc! { "quantity": 1_i64 });
    });
}

#[test]
fn what_is_not_there_is_told_without_words() {
    play(async || {
        let shop = Shop::open().await;
        let error = shop.here.document(43).lock().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.reason()),
            (ErrorKind::Rejected, Some(Reason::DocumentNotFound))
        );
        let part = shop.here.part::<Document>(42, Path::field("lines").element("sku", 9));
        let error = part.try_lock().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.reason()),
            (ErrorKind::Rejected, Some(Reason::PartNotFound))
        );
        let error = part.read().await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::PartNotFound));
        let error = shop.here.document(Bson::MaxKey).lock().await.unwrap_err();
        assert_eq!(error.reason(), None);
    });
}

#[test]
fn array_filters_say_which_elements_an_update_means() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let more = || doc! { "$inc": { "lines.$[few].quantity": 5 } };
        let few = || [doc! { "few.quantity": { "$lt": 2 } }];
        let whole = shop.here.document(43).lock().await.unwrap();
        whole.update(Update::new(more()).array_filters(few())).await.unwrap();
        let some = Update::new(doc! { "$set": { "lines.$[one].quantity": 1 } });
        whole.update(some.array_filters([doc! { "one.sku": { "$gt": 0 } }])).await.unwrap();
        whole.release_with(Update::new(more()).array_filters(few())).await.unwrap();
        let quantities: Vec<i64> =
            shop.seen(43).await.lines.iter().map(|line| line.quantity).collect();
        assert_eq!(quantities, [6, 6, 6]);
        let line = Path::field("lines").element("sku", 1);
        let part = shop.here.part::<Document>(43, line).lock().await.unwrap();
        let moved = Update::new(doc! { "$set": { "parts.$[it].at": "truck" } });
        part.update(moved.array_filters([doc! { "it.no": 7 }])).await.unwrap();
        let lines = shop.seen(43).await.lines;
        assert_eq!(
            (lines[1].parts[0].at.as_str(), lines[1].parts[1].at.as_str()),
            ("truck", "shelf")
        );
        assert_eq!(lines[0].parts[0].at, "shelf");
        for refused in [
            Update::new(more()).array_filters([doc! { "tenure.id": 1 }]),
            Update::new(more()).array_filters([doc! { "$or": [{ "tenure0.sku": 1 }] }]),
            Update::new(vec![doc! { "$set": { "a": 1 } }]).array_filters(few()),
            Update::new(doc! { "$set": { "parts.0._tenure.held": [] } }),
        ] {
            assert_eq!(part.update(refused).await.unwrap_err().kind(), ErrorKind::Invalid);
        }
        part.release().await.unwrap();
    });
}
