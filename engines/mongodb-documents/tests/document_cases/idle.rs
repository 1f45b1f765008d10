//! Idle workers: what they ask the server for while no document matches.

use std::time::{Duration, Instant};

use mongodb::bson::{Document, doc};
use tenure_mongodb_documents::{ClaimedDocument, DocumentLocks};
use tenure_servers::mongodb::{Server, doc as server_doc};
use tokio::task::JoinHandle;

use super::shop::{Order, Shop, order, patient};
use super::stage::{count, play, soon, until};

const WORKERS: i64 = 10;
const CHANGES: u32 = 200;

/// Returns the number of commands that workers sent for a collection.
fn asked(server: &Server) -> i64 {
    ["findAndModify", "aggregate", "find"].iter().map(|name| count(server, name)).sum()
}

/// Waiting workers, each with a client of its own, as in processes of their own.
struct Idle {
    server: Server,
    shop: Shop,
    workers: Vec<JoinHandle<tenure_core::Result<ClaimedDocument<Order>>>>,
}

impl Idle {
    async fn workers() -> Self {
        let (server, shop) = Shop::open_alone().await;
        shop.meddle(42, doc! { "$set": { "state": "old" } }).await;
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            let locks: DocumentLocks<Order> = patient().connect(&shop.url).await.unwrap();
            let before = count(&server, "aggregate");
            let queue = locks.queue(doc! { "state": "new" });
            workers.push(tokio::spawn(async move { queue.next().await }));
            // It listens by one aggregation, and asks by another one how long it has to wait.
            until("it waits", async || count(&server, "aggregate") >= before + 2).await;
        }
        Self { server, shop, workers }
    }

    /// Changes an order again and again. Returns the number of commands that the workers sent
    /// meanwhile.
    async fn meddled(&self, change: impl Fn(u32) -> Document) -> i64 {
        let before = asked(&self.server);
        for nth in 0..CHANGES {
            self.shop.meddle(42, change(nth)).await;
        }
        asked(&self.server) - before
    }

    /// Inserts an order for each worker, and waits until all are claimed.
    async fn are_served(self) {
        for nth in 0..WORKERS {
            self.shop.orders.insert_one(order(100 + i32::try_from(nth).unwrap())).await.unwrap();
        }
        for worker in self.workers {
            let job = soon("a worker is woken", worker).await.unwrap().unwrap();
            job.done(doc! { "$set": { "state": "done" } }).await.unwrap();
        }
    }
}

#[test]
fn changes_of_fields_that_the_filter_does_not_name_wake_no_worker() {
    play(async || {
        let idle = Idle::workers().await;
        let began = Instant::now();
        let asked = idle.meddled(|nth| doc! { "$set": { "total": i64::from(nth) } }).await;
        // Workers look again every 30 s.
        let looks = i64::try_from(began.elapsed().as_secs() / 20 + 1).unwrap();
        eprintln!("{CHANGES} unrelated updates in {:?}: {asked} commands", began.elapsed());
        assert!(asked <= 2 * WORKERS * looks, "{asked} commands");
        idle.are_served().await;
    });
}

#[test]
fn workers_who_look_in_vain_again_and_again_look_less_and_less_often() {
    play(async || {
        let idle = Idle::workers().await;
        let began = Instant::now();
        let asked = idle.meddled(|nth| doc! { "$set": { "state": nth.to_string() } }).await;
        // At first they look at once, and then after pauses that double.
        let looks = i64::try_from(began.elapsed().as_millis() / 500 + 8).unwrap();
        eprintln!("{CHANGES} vain updates in {:?}: {asked} commands", began.elapsed());
        assert!(asked <= 2 * WORKERS * looks, "{asked} commands in {:?}", began.elapsed());
        idle.are_served().await;
    });
}

#[test]
fn a_worker_is_woken_by_changes_around_and_inside_of_what_its_filter_names() {
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        let all = shop.orders.clone_with_type::<Document>();
        let lines =
            doc! { "lines": [{ "sku": 1 }, { "sku": 2, "box": { "at": "shelf" } }], "n": 0 };
        for (filter, update) in [
            (doc! { "lines.box.at": "truck" }, doc! { "$set": { "lines.1.box.at": "truck" } }),
            (
                doc! { "lines.box.at": "truck" },
                doc! { "$set": { "lines.1.box": { "at": "truck" } } },
            ),
            (
                doc! { "lines.1.box": { "at": "truck" } },
                doc! { "$set": { "lines.1.box.at": "truck" } },
            ),
            (
                doc! { "lines": { "$elemMatch": { "sku": 9 } } },
                doc! { "$push": { "lines": { "sku": 9 } } },
            ),
            (
                doc! { "$or": [{ "x": 1 }, { "$nor": [{ "n": { "$lt": 5 } }] }] },
                doc! { "$set": { "n": 7 } },
            ),
            (doc! { "$expr": { "$gt": ["$n", 5] } }, doc! { "$set": { "n": 7 } }),
            (doc! { "_id": 7, "a.b": 1 }, doc! { "$set": { "a": { "b": 1 } } }),
        ] {
            all.delete_many(doc! {}).await.unwrap();
            let mut document = lines.clone();
            document.insert("_id", 7);
            all.insert_one(document).await.unwrap();
            let locks = patient().over(&all).await.unwrap();
            let (queue, before) = (locks.queue(filter.clone()), count(&server, "aggregate"));
            let waits = tokio::spawn(async move { queue.next().await });
            until("it waits", async || count(&server, "aggregate") >= before + 2).await;
            all.update_one(doc! { "_id": 7 }, update).await.unwrap();
            // Without a notification it would look again after 30 s.
            let job = tokio::time::timeout(Duration::from_secs(25), waits).await;
            drop(job.unwrap_or_else(|_| panic!("{filter} is woken")).unwrap().unwrap());
        }
    });
}

#[test]
fn a_worker_that_waits_outlives_an_outage() {
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        shop.meddle(42, doc! { "$set": { "state": "old" } }).await;
        let queue = shop.here.queue(doc! { "state": "new" });
        let before = count(&server, "aggregate");
        let waits = tokio::spawn(async move { queue.next().await });
        until("it waits", async || count(&server, "aggregate") >= before + 2).await;
        let outage = server_doc! {
            "failCommands": ["findAndModify", "aggregate"], "errorCode": 50,
        };
        // More than one verb is retried.
        server.fail_commands(outage, 20).unwrap();
        shop.orders.insert_one(order(100)).await.unwrap();
        let job = soon("it gets what came in", waits).await.unwrap().unwrap();
        job.done(doc! { "$set": { "state": "done" } }).await.unwrap();
    });
}
