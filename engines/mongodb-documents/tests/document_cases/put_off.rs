//! Documents that are put off: they cost other claims nothing, and are claimed when their time is
//! over.

use std::time::Duration;

use mongodb::bson::{DateTime, Document, doc};

use super::shop::{Shop, order};
use super::stage::play;

/// The index that the page names leads past all that is put off, and to all that is due.
#[test]
fn no_question_examines_what_is_put_off_for_longer() {
    const PUT_OFF: i32 = 3000;
    play(async || {
        let (_server, shop) = Shop::open_alone().await;
        let keys = doc! { "state": 1, "_tenure.not_before": 1, "_id": 1 };
        let index = mongodb::IndexModel::builder().keys(keys).build();
        shop.orders.create_index(index).await.unwrap();
        let all = shop.orders.clone_with_type::<Document>();
        let put_off = |id, millis: i64| {
            let then = DateTime::now().timestamp_millis() + millis;
            let line = doc! { "held": [], "waiting": [], "last": 1_i64, "at": 1_i64, "step": 1_i64, "not_before": then };
            doc! { "_id": id, "state": "new", "total": 1_i64, "_tenure": line }
        };
        let far = 3_600_000;
        all.insert_many((100..100 + PUT_OFF).map(|id| put_off(id, far))).await.unwrap();
        all.insert_one(put_off(5000, -10)).await.unwrap();
        shop.orders.insert_one(order(6000)).await.unwrap();
        let database = shop.orders.client().database("tenure");
        database.run_command(doc! { "profile": 2 }).await.unwrap();
        let queue = shop.here.queue(doc! { "state": "new" }).order(doc! { "_id": 1 });
        let mut jobs = Vec::new();
        for _ in 0..3 {
            jobs.push(queue.next().await.unwrap());
        }
        let mut ids: Vec<i32> = jobs.iter().map(|job| job.document().id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [42, 5000, 6000], "also what was put off until now");
        assert!(queue.next_within(Duration::from_secs(2)).await.unwrap().is_none());
        database.run_command(doc! { "profile": 0 }).await.unwrap();
        let orders = shop.orders.name();
        let asked = doc! { "ns": format!("tenure.{orders}"), "$or": [
            { "command.findAndModify": orders },
            { "command.pipeline.0.$match": { "$exists": true } },
        ] };
        let profile = database.collection::<Document>("system.profile");
        let due = doc! { "$and": [asked.clone(), { "command.aggregate": orders }] };
        assert!(profile.count_documents(due).await.unwrap() > 0, "it asks how long it has to wait");
        let many = doc! { "$and": [asked, { "$or": [
            { "keysExamined": { "$gt": 12 } }, { "docsExamined": { "$gt": 8 } },
        ] }] };
        assert_eq!(profile.find_one(many).await.unwrap(), None);
    });
}

#[test]
fn what_was_put_off_comes_although_other_documents_always_match() {
    let with_index = doc! { "state": 1, "_tenure.not_before": 1, "_id": 1 };
    for keys in [doc! { "state": 1, "_id": 1 }, with_index] {
        play(async || {
            let shop = Shop::open().await;
            let index = mongodb::IndexModel::builder().keys(keys).build();
            shop.orders.create_index(index).await.unwrap();
            comes_although_others_match(&shop).await;
        });
    }
}

async fn comes_although_others_match(shop: &Shop) {
    let queue = shop.here.queue(doc! { "state": "new" });
    let job = queue.try_next().await.unwrap().unwrap();
    job.retry_later(Duration::from_millis(100)).await.unwrap();
    let mut next = 100;
    loop {
        shop.orders.insert_one(order(next)).await.unwrap();
        next += 1;
        let job = queue.try_next().await.unwrap().expect("one always matches");
        let is_it = job.document().id == 42;
        job.done(doc! { "$set": { "state": "done" } }).await.unwrap();
        if is_it {
            break;
        }
    }
}
