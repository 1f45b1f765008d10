//! Changes: the changes that a holder may make, and the fields that stay.

use mongodb::bson::{Bson, Document, bson, doc};
use tenure_core::ErrorKind;
use tenure_mongodb_documents::Path;

use super::shop::{Line, Shop, line, long_order, order, patient};
use super::stage::play;

#[test]
fn what_a_part_is_found_by_stays_as_it_is() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 2)).await.unwrap();
        let mut guard = shop.here.part::<Line>(43, line(1)).lock().await.unwrap();
        for refused in [
            doc! { "$set": { "sku": 7 } },
            doc! { "$inc": { "sku": 1 } },
            doc! { "$unset": { "sku": "" } },
            doc! { "$rename": { "quantity": "sku" } },
        ] {
            let error = guard.update(refused).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
            assert!(error.to_string().contains("lock the document or part around it"), "{error}");
        }
        for refused in [
            doc! { "$set": { "sku": 7 } },
            doc! { "$unset": "sku" },
            doc! { "$project": { "sku": 0 } },
            doc! { "$project": { "sku": { "$add": ["$sku", 1] } } },
        ] {
            let error = guard.update(vec![refused]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        }
        let other = Line { sku: 7, ..long_order(43, 1).lines.remove(0) };
        assert_eq!(guard.replace(other).await.unwrap_err().kind(), ErrorKind::Invalid);
        guard.update(doc! { "$set": { "sku": 1, "quantity": 2_i64 } }).await.unwrap();
        guard.update(vec![doc! { "$set": { "sku": 1, "quantity": 3_i64 } }]).await.unwrap();
        guard.update(vec![doc! { "$project": { "quantity": 1 } }]).await.unwrap();
        let bare = Line { sku: 1, quantity: 3, parts: Vec::new() };
        assert_eq!(*guard.refresh().await.unwrap(), bare);
        guard.release_with(vec![doc! { "$replaceWith": { "quantity": 4_i64 } }]).await.unwrap();
        let next = shop.there.part::<Line>(43, line(1)).try_lock().await.unwrap();
        assert_eq!(next.expect("it is free").document().quantity, 4);
    });
}

#[test]
fn a_pipeline_sees_nothing_of_the_lock_in_all_that_there_is() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 2)).await.unwrap();
        let all = shop.orders.clone_with_type::<Document>();
        let locks = patient().over(&all).await.unwrap();
        let part = locks.part::<Document>(43, line(1)).lock().await.unwrap();
        part.update(vec![doc! { "$set": { "before": "$$ROOT", "parts": [] } }]).await.unwrap();
        part.update(vec![
            doc! { "$replaceWith": { "$mergeObjects": ["$$CURRENT", { "quantity": 5 }] } },
        ])
        .await
        .unwrap();
        part.release().await.unwrap();
        let whole = locks.document(42).lock().await.unwrap();
        whole
            .release_with(vec![
                doc! { "$set": { "before": "$$ROOT", "dollars": { "$literal": "$$ROOT" } } },
            ])
            .await
            .unwrap();
        let mut raw = shop.raw(42).await.unwrap();
        raw.remove("_tenure");
        let before = doc! { "_id": 42, "state": "new", "total": 10_i64 };
        let mut wanted = before.clone();
        wanted.extend(doc! { "before": before, "dollars": "$$ROOT" });
        assert_eq!(raw, wanted);
        let raw = shop.raw(43).await.unwrap();
        let line = raw.get_array("lines").unwrap()[1].as_document().unwrap();
        let before = line.get_document("before").unwrap();
        assert_eq!(before.keys().collect::<Vec<_>>(), ["sku", "quantity", "parts"]);
        assert!(!raw.to_string().contains('~'), "{raw}");
    });
}

#[test]
fn a_projection_leaves_out_what_it_names_and_nothing_else() {
    play(async || {
        let shop = Shop::open().await;
        let all = shop.orders.clone_with_type::<Document>();
        let inner = doc! { "c": 1, "d": 2, "e": 3 };
        let line = doc! { "_id": 9, "sku": 1, "a": 1, "b": inner };
        all.insert_one(doc! { "_id": 7, "lines": [line] }).await.unwrap();
        let locks = patient().over(&all).await.unwrap();
        let path = Path::field("lines").element("sku", 1);
        let mut part = locks.part::<Document>(7, path).lock().await.unwrap();
        for (project, wanted) in [
            (doc! { "b.c": 0 }, doc! { "_id": 9, "sku": 1, "a": 1, "b": { "d": 2, "e": 3 } }),
            (doc! { "b": { "d": 0 } }, doc! { "_id": 9, "sku": 1, "a": 1, "b": { "e": 3 } }),
            (doc! { "_id": 0 }, doc! { "sku": 1, "a": 1, "b": { "e": 3 } }),
            (doc! { "b": 0.0 }, doc! { "sku": 1, "a": 1 }),
            (doc! { "none": 1 }, doc! { "sku": 1 }),
        ] {
            part.update(vec![doc! { "$project": project.clone() }]).await.unwrap();
            assert_eq!(*part.refresh().await.unwrap(), wanted, "{project}");
        }
        let whole = shop.here.document(42).lock().await.unwrap();
        drop(whole.update(vec![doc! { "$project": { "_id": 0 } }]).await);
        assert_eq!(shop.seen(42).await, order(42));
    });
}

#[test]
fn a_document_is_not_replaced_by_one_of_another_id() {
    play(async || {
        let shop = Shop::open().await;
        let mut guard = shop.here.document(42).lock().await.unwrap();
        let error = guard.replace(order(43)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains("an _id cannot be changed"), "{error}");
        assert_eq!((guard.document(), shop.seen(42).await), (&order(42), order(42)));
        guard.replace(order(42)).await.unwrap();
    });
}

#[test]
fn a_copy_that_a_query_would_find_and_the_path_does_not_is_not_changed() {
    play(async || {
        let shop = Shop::open().await;
        let all = shop.orders.clone_with_type::<Document>();
        for (id, name, value, copied) in
            [(7, "sku", bson!(1), Some(bson!([1, 2]))), (8, "sku", Bson::Null, None)]
        {
            let line = doc! { name: value.clone(), "n": 0 };
            all.insert_one(doc! { "_id": id, "lines": [line] }).await.unwrap();
            let locks = patient().over(&all).await.unwrap();
            let path = Path::field("lines").element(name, value);
            let guard = locks.part::<Document>(id, path).lock().await.unwrap();
            let mut found = all.find_one(doc! { "_id": id }).await.unwrap().unwrap();
            let lines = found.get_array_mut("lines").unwrap();
            let mut copy = lines[0].as_document().unwrap().clone();
            copy.remove(name);
            copy.extend(copied.map(|copied| (name.to_owned(), copied)));
            lines.push(copy.into());
            all.replace_one(doc! { "_id": id }, found).await.unwrap();
            guard.update(doc! { "$set": { "n": 5 } }).await.unwrap();
            let found = all.find_one(doc! { "_id": id }).await.unwrap().unwrap();
            let numbers: Vec<_> = found
                .get_array("lines")
                .unwrap()
                .iter()
                .map(|line| line.as_document().unwrap().get_i32("n").unwrap())
                .collect();
            assert_eq!(numbers, [5, 0], "{name}");
        }
    });
}

#[test]
fn values_of_every_type_and_their_order_stay_as_they_are() {
    play(async || {
        let shop = Shop::open().await;
        let all = shop.orders.clone_with_type::<Document>();
        let mut element = doc! {
            "z": 1_i32, "y": 2_i64, "x": 3.0, "w": Bson::Decimal128("1.50".parse().unwrap()), "v": Bson::MinKey,
            "u": Bson::Timestamp(mongodb::bson::Timestamp { time: 1, increment: 2 }), "n": Bson::Null, "e": {}, "ea": [],
            "c": Bson::JavaScriptCode("x".to_owned()), "un": Bson::Undefined, "$dollar": 1,
            "do.t": { "$a": 1, "b.c": [1, { "$d": 2 }] }, "deep": [[1, [2]], "s"],
        };
        element.insert("sku", 1);
        let mut document = doc! { "_id": 7 };
        document.extend(element.clone().into_iter().filter(|(name, _)| name != "$dollar"));
        document.insert(
            "lines",
            bson!([{ "sku": 0 }, "text", [1, 2], null, element.clone(), { "sku": 2 }]),
        );
        all.insert_one(document.clone()).await.unwrap();
        let locks = patient().over(&all).await.unwrap();
        for path in [Path::default(), line(1)] {
            let mut guard = locks.part::<Document>(7, path).lock().await.unwrap();
            let read = guard.document().clone();
            guard.update(doc! { "$set": { "q": 1 } }).await.unwrap();
            guard.update(vec![doc! { "$unset": "q" }]).await.unwrap();
            assert_eq!(*guard.refresh().await.unwrap(), read);
            guard.replace(read).await.unwrap();
            guard.release_with(vec![doc! { "$set": { "z": 1_i32 } }]).await.unwrap();
        }
        let mut found = shop.raw(7).await.unwrap();
        found.remove("_tenure");
        found.get_array_mut("lines").unwrap()[4].as_document_mut().unwrap().remove("_tenure");
        let bytes = |document| mongodb::bson::serialize_to_vec(document).unwrap();
        assert_eq!(bytes(&found), bytes(&document), "{found}");
    });
}
