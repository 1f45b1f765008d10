//! Parts: they lock independently of each other, wherever they stand in their arrays.

use std::time::Duration;

use futures_util::future::join_all;
use mongodb::bson::{Document, bson, doc};
use tenure_core::{ErrorKind, Loss, TicketState};
use tenure_mongodb_documents::{DocumentLocks, Documents, Path};

use super::shop::{Line, Order, Part, Shop, line, long_order, order, part, patient};
use super::stage::{play, soon, until};

#[test]
fn parts_lock_independently_of_each_other_and_of_the_whole() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let one = shop.here.part::<Line>(43, line(1)).lock().await.unwrap();
        let other = shop.there.part::<Line>(43, line(2)).lock().await.unwrap();
        let inner = shop.there.part::<Part>(43, part(1, 7)).lock().await.unwrap();
        let whole = shop.there.document(43).lock().await.unwrap();
        assert_eq!((one.document().sku, other.document().sku, inner.document().no), (1, 2, 7));
        assert_eq!(whole.document().lines.len(), 3);
        assert!(shop.there.part::<Line>(43, line(1)).try_lock().await.unwrap().is_none());
        assert!(shop.here.part::<Part>(43, part(1, 7)).try_lock().await.unwrap().is_none());
        assert!(shop.here.part::<Part>(43, part(1, 8)).try_lock().await.unwrap().is_some());
        let (state, line) =
            (doc! { "$set": { "state": "sent" } }, doc! { "$inc": { "quantity": 1 } });
        whole.update(state).await.unwrap();
        one.update(line.clone()).await.unwrap();
        other
            .update(vec![doc! { "$set": { "quantity": { "$add": ["$quantity", 5] } } }])
            .await
            .unwrap();
        inner.update(doc! { "$set": { "at": "truck" } }).await.unwrap();
        for released in [one.release().await, other.release().await, inner.release().await] {
            released.unwrap();
        }
        whole.release().await.unwrap();
        let mut wanted = Order { state: "sent".to_owned(), ..long_order(43, 3) };
        (wanted.lines[1].quantity, wanted.lines[2].quantity) = (2, 6);
        wanted.lines[1].parts[0].at = "truck".to_owned();
        assert_eq!(shop.seen(43).await, wanted);
    });
}

#[test]
fn hierarchical_a_whole_waits_for_its_parts_and_keeps_them_out() {
    play(async || {
        let shop = Shop::open_with(Documents::new().hierarchical()).await;
        shop.orders.insert_one(long_order(43, 2)).await.unwrap();
        let inner = shop.here.part::<Part>(43, part(1, 7)).lock().await.unwrap();
        let beside = shop.there.part::<Part>(43, part(1, 8)).try_lock().await.unwrap();
        assert!(beside.is_some(), "parts beside each other do not meet");
        for busy in [
            shop.there.part::<Line>(43, line(1)).try_lock().await.unwrap().is_none(),
            shop.there.document(43).try_lock().await.unwrap().is_none(),
        ] {
            assert!(busy, "a part of it is locked");
        }
        drop(beside);
        let lock = shop.there.document(43);
        let whole = tokio::spawn(async move { lock.lock().await });
        inner.update(doc! { "$set": { "at": "truck" } }).await.unwrap();
        inner.release().await.unwrap();
        let whole = soon("the whole is free", whole).await.unwrap().unwrap();
        assert_eq!(whole.document().lines[1].parts[0].at, "truck");
        assert!(shop.here.part::<Part>(43, part(0, 7)).try_lock().await.unwrap().is_none());
        whole.release().await.unwrap();
    });
}

#[test]
fn hierarchical_a_part_is_lost_with_what_is_around_it() {
    play(async || {
        let shop = Shop::open_with(Documents::new().hierarchical()).await;
        shop.orders.insert_one(long_order(43, 1)).await.unwrap();
        let inner = shop.here.part::<Part>(43, part(0, 7)).lock().await.unwrap();
        let whole = shop.there.document(43);
        let around = whole.line().await.unwrap().remove(0).id;
        shop.there.locks().force_unlock(whole.key().unwrap(), around).await.unwrap();
        let whole = whole.lock().await.unwrap();
        let error = inner.update(doc! { "$set": { "at": "late" } }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
        assert_eq!(shop.seen(43).await, long_order(43, 1));
        whole.release().await.unwrap();
    });
}

#[test]
fn hierarchical_a_part_is_not_locked_if_the_whole_is_lost_while_it_waits() {
    play(async || {
        let shop = Shop::open_with(Documents::new().hierarchical()).await;
        shop.orders.insert_one(long_order(43, 2)).await.unwrap();
        let (whole, inner) = (shop.there.document(43), shop.there.part::<Part>(43, part(1, 7)));
        let busy = inner.lock().await.unwrap();
        let of_busy = whole.line().await.unwrap().remove(0).id;
        let lock = shop.here.part::<Part>(43, part(1, 7));
        let waiter = tokio::spawn(async move { lock.lock().await });
        until("the part is waited for", async || inner.line().await.unwrap().len() == 2).await;
        let mut around = whole.line().await.unwrap();
        around.retain(|ticket| ticket.id != of_busy);
        whole.break_ticket(around[0].id).await.unwrap();
        let error = soon("the loss ends the wait", waiter).await.unwrap().unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Broken), "{error:?}");
        until("its lines are left", async || inner.line().await.unwrap().len() == 1).await;
        busy.release().await.unwrap();
    });
}

#[test]
fn several_parts_are_not_locked_if_one_is_lost_while_another_is_waited_for() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let [first, second] = [1, 2].map(|sku| shop.there.part::<Line>(43, line(sku)));
        let busy = second.lock().await.unwrap();
        let lines = shop.here.parts::<Line>(43, [line(1), line(2)]);
        let both = tokio::spawn(async move { lines.lock().await });
        until("the second is waited for", async || second.line().await.unwrap().len() == 2).await;
        first.break_ticket(first.line().await.unwrap()[0].id).await.unwrap();
        let error = soon("the loss ends the wait", both).await.unwrap().unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Broken), "{error:?}");
        until("its lines are left", async || second.line().await.unwrap().len() == 1).await;
        busy.release().await.unwrap();
    });
}

/// Returns once two tickets stand in the line of the whole: one that reads what is around its part,
/// and one that waits.
async fn whole_is_waited_for(shop: &Shop) {
    let waits = async || {
        let line = shop.there.document(43).line().await.unwrap();
        line.iter().any(|place| place.state == TicketState::Waiting)
    };
    until("another client waits for the whole", waits).await;
}

#[test]
fn hierarchical_a_task_that_holds_one_part_waits_in_vain_for_another_behind_a_waiter_for_the_whole()
{
    play(async || {
        let shop = Shop::open_with(Documents::new().hierarchical()).await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let one = shop.here.part::<Line>(43, line(1)).lock().await.unwrap();
        let lock = shop.there.document(43);
        let whole = tokio::spawn(async move { lock.lock().await });
        whole_is_waited_for(&shop).await;
        let other = shop.here.part::<Line>(43, line(2));
        let other = other.try_lock_for(Duration::from_secs(1)).await.unwrap();
        assert!(other.is_none() && !whole.is_finished(), "each waits for the other");
        drop(one);
        soon("the whole is free", whole).await.unwrap().unwrap().release().await.unwrap();
    });
}

#[test]
fn hierarchical_several_parts_are_locked_at_once_also_behind_a_waiter_for_the_whole() {
    play(async || {
        let shop = Shop::open_with(Documents::new().hierarchical()).await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        // Another client holds the second part, so that the first is held while the second is
        // waited for.
        let busy = shop.there.part::<Line>(43, line(2)).lock().await.unwrap();
        let lines = shop.here.parts::<Line>(43, [line(2), line(1)]).note("picks");
        assert!(lines.try_lock().await.unwrap().is_none(), "one of them is not free");
        let both = tokio::spawn(async move { lines.lock().await });
        let waits = async || {
            let line = shop.there.part::<Line>(43, line(2)).line().await.unwrap();
            line.len() == 2
        };
        until("both are waited for", waits).await;
        let lock = shop.there.document(43);
        let whole = tokio::spawn(async move { lock.lock().await });
        whole_is_waited_for(&shop).await;
        busy.release().await.unwrap();
        let mut both = soon("both are locked", both).await.unwrap().unwrap();
        let skus: Vec<i32> = both.iter().map(|guard| guard.document().sku).collect();
        assert_eq!(skus, [2, 1], "in the order of the paths");
        for guard in &both {
            guard.update(doc! { "$inc": { "quantity": 5 } }).await.unwrap();
        }
        let last = both.pop().unwrap();
        both.pop().unwrap().release().await.unwrap();
        last.update(doc! { "$inc": { "quantity": 1 } }).await.unwrap();
        assert!(!whole.is_finished(), "what is around them is held until the last is released");
        last.release().await.unwrap();
        let whole = soon("the whole is free", whole).await.unwrap().unwrap();
        let quantities: Vec<i64> =
            whole.document().lines.iter().map(|line| line.quantity).collect();
        assert_eq!(quantities, [1, 7, 6]);
        whole.release().await.unwrap();
    });
}

/// Every task takes two of three lines, in either order, while others take the whole and inner
/// parts.
#[test]
fn hierarchical_tasks_that_take_several_parts_never_wait_for_each_other() {
    const ROUNDS: i32 = 8;
    play(async || {
        let shop = Shop::open_with(Documents::new().hierarchical()).await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let task = async |locks: &DocumentLocks<Order>, nth: i32| {
            for round in 0..ROUNDS {
                let (one, other) = ((nth + round) % 3, (nth + 2 * round + 1) % 3);
                let change = || doc! { "$inc": { "quantity": 1 } };
                if nth % 4 == 3 {
                    locks.document(43).lock().await.unwrap().release().await.unwrap();
                } else if one == other {
                    let paths = [part(one, 8), part(one, 7), line((one + 1) % 3)];
                    drop(locks.parts::<Document>(43, paths).lock().await.unwrap());
                } else {
                    for guard in
                        locks.parts::<Line>(43, [line(one), line(other)]).lock().await.unwrap()
                    {
                        guard.release_with(change()).await.unwrap();
                    }
                }
            }
        };
        let tasks =
            (0..8).map(|nth| task(if nth % 2 == 0 { &shop.here } else { &shop.there }, nth));
        soon("all have come through", join_all(tasks)).await;
        for shelf in [&shop.here, &shop.there] {
            shelf.locks().flush().await;
        }
        shop.here.document(43).lock().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn parts_that_are_one_or_in_each_other_are_refused_beside_each_other() {
    play(async || {
        let shop = Shop::open_with(Documents::new().hierarchical()).await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let same = Path::field("lines").element_where(doc! { "sku": 1, "quantity": 1 });
        for paths in [
            [line(1), line(1)],
            [line(1), same.clone()],
            [line(1), part(1, 7)],
            [part(1, 7), line(1)],
            [Path::default(), line(1)],
        ] {
            let parts = shop.here.parts::<Document>(43, paths.clone());
            let error = parts.lock().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{paths:?}: {error:?}");
        }
        shop.here.locks().flush().await;
        let apart = patient().connect::<Order>(&shop.url).await.unwrap();
        let error = apart.parts::<Document>(43, [line(1), same]).lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        apart.locks().flush().await;
        let none = apart.parts::<Document>(43, []).lock().await.unwrap();
        assert!(none.is_empty());
        let whole = shop.there.document(43).try_lock().await.unwrap();
        assert!(whole.is_some(), "nothing of a refusal stays behind");
    });
}

#[test]
fn two_paths_to_one_part_are_one_lock() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let guard = shop.here.part::<Line>(43, line(1)).lock().await.unwrap();
        let other = Path::field("lines").element_where(doc! { "sku": 1.0, "quantity": 1 });
        assert!(shop.there.part::<Line>(43, other.clone()).try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
        assert!(shop.there.part::<Line>(43, other).try_lock().await.unwrap().is_some());
    });
}

#[test]
fn what_is_no_part_or_more_than_one_is_refused_by_its_name() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let before = shop.seen(43).await;
        for (path, says) in [
            ("lines.$[quantity = 1]", "more than one"),
            ("lines.$[quantity = 1].parts.$[no = 7]", "more than one"),
            ("lines.$[sku = 9]", "no such part"),
            ("lines.$[sku = 1].parts.$[no = 9]", "no such part"),
            ("lines", "no such part"),
            ("state", "no such part"),
            ("nothing.here", "no such part"),
            ("state.$[a = 1]", "no such part"),
        ] {
            let lock = shop.here.part::<Line>(43, path.parse().unwrap());
            let error = lock.lock().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.to_string().contains(says), "{path}: {error}");
            assert_eq!(lock.line().await.unwrap(), []);
        }
        assert_eq!(shop.seen(43).await, before);
        let error = shop.here.part::<Line>(99, line(1)).lock().await.unwrap_err();
        assert!(error.to_string().contains("no document 99"), "{error}");
    });
}

#[test]
fn a_holder_of_a_part_changes_it_in_every_way() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 2)).await.unwrap();
        let mut guard = shop.here.part::<Part>(43, part(1, 7)).lock().await.unwrap();
        guard.update(doc! { "$set": { "at": "a" } }).await.unwrap();
        guard.update(vec![doc! { "$set": { "at": { "$concat": ["$at", "b"] } } }]).await.unwrap();
        guard
            .update(vec![
                doc! { "$replaceWith": { "no": "$no", "at": { "$concat": ["$at", "c"] } } },
            ])
            .await
            .unwrap();
        guard.update(vec![doc! { "$project": { "no": 1, "at": 1 } }]).await.unwrap();
        assert_eq!(guard.refresh().await.unwrap().at, "abc");
        guard.replace(Part { no: 7, at: "d".to_owned() }).await.unwrap();
        assert!(shop.there.part::<Part>(43, part(1, 7)).try_lock().await.unwrap().is_none());
        guard
            .release_with(vec![doc! { "$set": { "at": { "$concat": ["$at", "e"] } } }])
            .await
            .unwrap();
        let next =
            shop.there.part::<Part>(43, part(1, 7)).try_lock().await.unwrap().expect("it is free");
        assert_eq!(next.document().at, "de");
        next.release_with(doc! { "$set": { "at": "f" } }).await.unwrap();
        let mut wanted = long_order(43, 2);
        wanted.lines[1].parts[0].at = "f".to_owned();
        assert_eq!(shop.seen(43).await, wanted);
    });
}

#[test]
fn a_document_in_a_field_is_a_part() {
    play(async || {
        let shop = Shop::open().await;
        let documents = shop.orders.clone_with_type::<mongodb::bson::Document>();
        let address = doc! { "city": { "name": "Berlin" } };
        documents.insert_one(doc! { "_id": 7, "address": address }).await.unwrap();
        let locks = patient().over(&documents).await.unwrap();
        let path: Path = "address.city".parse().unwrap();
        let guard = locks.part::<mongodb::bson::Document>(7, path.clone()).lock().await.unwrap();
        assert_eq!(guard.document(), &doc! { "name": "Berlin" });
        guard.update(doc! { "$set": { "name": "Bonn" } }).await.unwrap();
        assert!(shop.here.part::<Line>(7, path).try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
        let found = documents.find_one(doc! { "_id": 7 }).await.unwrap().unwrap();
        assert_eq!(
            found
                .get_document("address")
                .unwrap()
                .get_document("city")
                .unwrap()
                .get_str("name")
                .unwrap(),
            "Bonn"
        );
    });
}

#[test]
fn an_element_is_found_wherever_it_stands() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let guard = shop.here.part::<Line>(43, line(1)).lock().await.unwrap();
        // Another program extends the array, and sorts it in the other direction.
        let more = bson!([{ "sku": 9, "quantity": 1_i64 }]);
        let grown = doc! { "$push": { "lines": { "$each": more, "$sort": { "sku": -1 } } } };
        shop.meddle(43, grown).await;
        guard.update(doc! { "$set": { "quantity": 5_i64 } }).await.unwrap();
        assert!(shop.there.part::<Line>(43, line(1)).try_lock().await.unwrap().is_none());
        guard.release().await.unwrap();
        let seen = shop.seen(43).await;
        let quantities: Vec<_> = seen.lines.iter().map(|line| (line.sku, line.quantity)).collect();
        assert_eq!(quantities, [(9, 1), (2, 1), (1, 5), (0, 1)]);
    });
}

#[test]
fn an_element_that_is_removed_takes_its_lock_along_and_the_holder_is_told() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let guard = shop.here.part::<Line>(43, line(1)).lock().await.unwrap();
        let lost = tokio::spawn({
            let held = guard.held();
            async move { held.lost().await }
        });
        // Wait until its client listens.
        until_listening(&shop).await;
        shop.meddle(43, doc! { "$pull": { "lines": { "sku": 1 } } }).await;
        soon("the holder is told", lost).await.unwrap();
        let error = guard.update(doc! { "$set": { "quantity": 5_i64 } }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
        let mut wanted = long_order(43, 3);
        wanted.lines.remove(1);
        assert_eq!(shop.seen(43).await, wanted);
    });
}

/// Both clients' change streams are open once a hand-over between them was heard.
async fn until_listening(shop: &Shop) {
    shop.orders.insert_one(order(1000)).await.unwrap();
    let guard = shop.there.document(1000).lock().await.unwrap();
    let lock = shop.here.document(1000);
    let next = tokio::spawn(async move { lock.lock().await });
    while shop.there.document(1000).line().await.unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    guard.release().await.unwrap();
    soon("it is handed over", next).await.unwrap().unwrap().release().await.unwrap();
}

#[test]
fn a_filter_that_matches_two_ends_the_lock_and_changes_nothing() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 3)).await.unwrap();
        let guard = shop.here.part::<Line>(43, line(1)).lock().await.unwrap();
        shop.meddle(43, doc! { "$set": { "lines.2.sku": 1 } }).await;
        let before = shop.seen(43).await;
        let error = guard.update(doc! { "$set": { "quantity": 5_i64 } }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
        let error = shop.there.part::<Line>(43, line(1)).lock().await.unwrap_err();
        assert!(error.to_string().contains("more than one"), "{error}");
        assert_eq!(shop.seen(43).await, before);
    });
}

#[test]
fn a_copy_of_an_element_with_its_lock_is_not_changed_by_the_holder() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_one(long_order(43, 2)).await.unwrap();
        let guard = shop.here.part::<Line>(43, line(1)).lock().await.unwrap();
        // Another program copies the line with all its fields, and gives the copy a number of its
        // own.
        let copy = doc! { "$mergeObjects": [{ "$arrayElemAt": ["$lines", 1] }, { "sku": 5 }] };
        let copied = vec![doc! { "$set": { "lines": { "$concatArrays": ["$lines", [copy]] } } }];
        shop.orders.update_one(doc! { "_id": 43 }, copied).await.unwrap();
        guard.update(doc! { "$set": { "quantity": 5_i64 } }).await.unwrap();
        guard
            .update(vec![doc! { "$set": { "quantity": { "$add": ["$quantity", 1_i64] } } }])
            .await
            .unwrap();
        guard.release().await.unwrap();
        let quantities: Vec<_> =
            shop.seen(43).await.lines.iter().map(|line| (line.sku, line.quantity)).collect();
        assert_eq!(quantities, [(0, 1), (1, 6), (5, 1)]);
    });
}

#[test]
fn a_thousand_parts_of_one_document_are_locked_by_a_hundred_tasks() {
    const LINES: i32 = 1000;
    /// Beyond the wait for a hundred writes of a busy server.
    const TTL: Duration = Duration::from_secs(3600);
    play(async || {
        let shop = Shop::open().await;
        let bare = |sku| Line { sku, quantity: 0, parts: Vec::new() };
        shop.orders
            .insert_one(Order { lines: (0..LINES).map(bare).collect(), ..order(43) })
            .await
            .unwrap();
        let tasks = (0..100).map(|task| {
            let locks = if task % 2 == 0 { shop.here.clone() } else { shop.there.clone() };
            tokio::spawn(async move {
                let mut unanswered = Vec::new();
                for sku in task * (LINES / 100)..(task + 1) * (LINES / 100) {
                    let part = locks.part::<Line>(43, line(sku)).ttl(TTL);
                    let guard = part.lock().await.unwrap();
                    let add = doc! { "$set": { "quantity": { "$add": ["$quantity", 1_i64] } } };
                    if let Err(error) = guard.release_with(vec![add]).await {
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                        unanswered.push(sku);
                    }
                }
                unanswered
            })
        });
        let mut unanswered = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            unanswered.extend(task.await.unwrap());
        }
        println!("{} writes lost their answer", unanswered.len());
        for line in shop.seen(43).await.lines {
            let is_made = line.quantity == 1;
            let may_be_made = line.quantity == 0 && unanswered.contains(&line.sku);
            assert!(is_made || may_be_made, "{line:?}");
        }
    });
}
