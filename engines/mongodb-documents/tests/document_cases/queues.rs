//! Queues: each matching document is claimed by one worker, even if workers die.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongodb::bson::{Document, doc};
use tenure_core::{ErrorKind, Reason};
use tenure_mongodb_documents::{DocumentGuard, DocumentQueue, Documents, MemoryDocuments};

use super::shop::{Order, Shop, order, patient};
use super::stage::{count, play, soon, until};

fn queue(locks: &tenure_mongodb_documents::DocumentLocks<Order>) -> DocumentQueue<Order> {
    locks.queue(doc! { "state": "new" }).order(doc! { "_id": 1 })
}

#[test]
fn a_claim_is_one_command_and_skips_what_is_held() {
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        shop.orders
            .insert_many([order(43), order(44), Order { state: "old".to_owned(), ..order(1) }])
            .await
            .unwrap();
        let (here, there) = (queue(&shop.here), queue(&shop.there));
        let asked = || count(&server, "findAndModify") + count(&server, "find");
        let before = asked();
        let first = here.try_next().await.unwrap().unwrap();
        assert_eq!((asked() - before, first.document().id), (1, 42));
        let second = there.try_next().await.unwrap().unwrap();
        let third = here.try_next().await.unwrap().unwrap();
        assert_eq!((second.document().id, third.document().id), (43, 44));
        assert!(there.try_next().await.unwrap().is_none());
        assert!(
            shop.there.document(42).try_lock().await.unwrap().is_none(),
            "it is the lock of the document"
        );
        let before = asked();
        second.done(doc! { "$set": { "state": "done" } }).await.unwrap();
        assert_eq!(asked() - before, 1);
        drop(first);
        shop.here.locks().flush().await;
        assert_eq!(there.try_next().await.unwrap().unwrap().document().id, 42, "it was let go");
        third.delete().await.unwrap();
        assert_eq!(shop.raw(44).await, None);
        assert_eq!(shop.seen(43).await.state, "done");
    });
}

#[test]
fn who_waits_is_woken_by_what_comes_in_and_by_what_is_let_go() {
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        let held = queue(&shop.here).try_next().await.unwrap().unwrap();
        let waits = || {
            let queue = queue(&shop.there);
            tokio::spawn(async move { queue.next().await })
        };
        let (waiting, asked) = (waits(), || count(&server, "findAndModify"));
        // It asks when it comes and when it listens, which may take long on a busy machine.
        let mut before = asked();
        until("it has asked", async || {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = asked();
            std::mem::replace(&mut before, now) == now
        })
        .await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(asked(), before, "nobody asks again and again");
        shop.orders.insert_one(order(43)).await.unwrap();
        let job = soon("who waits gets what came in", waiting).await.unwrap().unwrap();
        assert_eq!(job.document().id, 43);
        job.done(doc! { "$set": { "state": "done" } }).await.unwrap();
        let waiting = waits();
        tokio::time::sleep(Duration::from_millis(200)).await;
        held.retry_later(Duration::from_millis(300)).await.unwrap();
        let job = soon("who waits gets what was put off", waiting).await.unwrap().unwrap();
        assert_eq!(job.document().id, 42);
        let waiting = waits();
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(job);
        let job = soon("who waits gets what was let go", waiting).await.unwrap().unwrap();
        let waiting = waits();
        tokio::time::sleep(Duration::from_millis(200)).await;
        job.done(doc! { "$set": { "state": "done" } }).await.unwrap();
        shop.meddle(43, doc! { "$set": { "state": "new" } }).await;
        let job = soon("who waits gets what matches again", waiting).await.unwrap().unwrap();
        assert_eq!(job.document().id, 43);
    });
}

#[test]
fn what_is_put_off_is_not_claimed_before_its_time_and_keeps_its_place() {
    play(async || {
        let shop = Shop::open().await;
        let queue = queue(&shop.here);
        let job = queue.try_next().await.unwrap().unwrap();
        job.retry_later(Duration::from_secs(3600)).await.unwrap();
        assert!(queue.try_next().await.unwrap().is_none());
        let guard = shop.there.document(42).try_lock().await.unwrap();
        assert!(guard.is_some(), "who asks for it by its name gets it");
    });
}

#[test]
fn a_job_is_released_and_becomes_a_guard_whose_loss_another_task_awaits() {
    play(async || {
        let shop = Shop::open().await;
        let queue = queue(&shop.here);
        queue.try_next().await.unwrap().unwrap().release().await.unwrap();
        let job = queue.try_next().await.unwrap().expect("it was let go");
        let guard: DocumentGuard<Order> = job.into_guard();
        assert!(queue.try_next().await.unwrap().is_none());
        let lost = tokio::spawn(guard.lost());
        let lock = shop.there.document(42);
        shop.there.locks().force_unlock(lock.key().unwrap(), guard.id()).await.unwrap();
        soon("the task hears of the loss", lost).await.unwrap();
        drop(guard);
        let next = queue.next().await.unwrap().into_guard();
        next.release_with(doc! { "$set": { "state": "done" } }).await.unwrap();
        assert_eq!(shop.seen(42).await.state, "done");
    });
}

#[test]
fn a_job_that_was_taken_away_is_not_done() {
    play(async || {
        let shop = Shop::open().await;
        let job = queue(&shop.here).try_next().await.unwrap().unwrap();
        let lock = shop.there.document(42);
        shop.there.locks().force_unlock(lock.key().unwrap(), job.id()).await.unwrap();
        let next = queue(&shop.there).try_next().await.unwrap().unwrap();
        let error = job.done(doc! { "$set": { "state": "done" } }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
        assert_eq!(shop.seen(42).await.state, "new");
        next.done(doc! { "$set": { "state": "done" } }).await.unwrap();
    });
}

#[test]
fn a_claim_whose_answer_is_lost_loses_no_document() {
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        let cut = tenure_servers::mongodb::doc! {
            "failCommands": ["findAndModify"],
            "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
        };
        server.fail_commands(cut, 1).unwrap();
        let queue = queue(&shop.here).ttl(Duration::from_secs(4));
        let job = soon("it is claimed, at the latest when the lost claim has ended", queue.next());
        let job = job.await.unwrap();
        job.done(doc! { "$set": { "state": "done" } }).await.unwrap();
        assert_eq!(shop.seen(42).await.state, "done");
    });
}

#[test]
fn a_claim_whose_answer_is_lost_is_found_again_before_its_life_is_over() {
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        shop.orders.insert_one(order(43)).await.unwrap();
        let unknown = tenure_servers::mongodb::doc! {
            "failCommands": ["findAndModify"],
            "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
        };
        let queue = queue(&shop.here).ttl(Duration::from_secs(3600));
        server.fail_commands(unknown.clone(), 1).unwrap();
        let first = queue.try_next().await.unwrap().unwrap();
        assert_eq!((first.document().id, shop.held().await), (42, 1));
        // Until the store answers again it is not known which document was claimed.
        server.fail_commands(unknown, 5).unwrap();
        assert_eq!(queue.try_next().await.unwrap_err().kind(), ErrorKind::Unavailable);
        server.fail_no_more().unwrap();
        until("what was claimed is given back", async || shop.held().await == 1).await;
        first.done(doc! { "$set": { "state": "done" } }).await.unwrap();
    });
}

#[test]
fn who_gives_up_claiming_leaves_nothing_claimed() {
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_many((100..200).map(order)).await.unwrap();
        let queue = queue(&shop.here).ttl(Duration::from_secs(3600));
        for nth in 0..60 {
            let time = Duration::from_micros(200 + nth * 40);
            drop(tokio::time::timeout(time, queue.try_next()).await);
        }
        until("all is given back", async || shop.held().await == 0).await;
    });
}

#[test]
fn the_terms_of_a_queue_are_kept_in_whatever_order_they_are_said() {
    play(async || {
        let shop = Shop::open().await;
        let queue = shop.here.queue(doc! { "state": "new" });
        let queue = queue.ttl(Duration::from_secs(2)).note("ada").order(doc! { "_id": 1 });
        let job = queue.try_next().await.unwrap().unwrap();
        let raw = shop.raw(42).await.unwrap();
        let seat = raw.get_document("_tenure").unwrap().get_array("held").unwrap()[0].clone();
        let seat = seat.as_document().unwrap();
        assert_eq!(seat.get_i64("ttl_us").unwrap(), 2_000_000);
        assert_eq!(seat.get_str("note").unwrap(), "ada");
        drop(job);
    });
}

/// Without a notification a worker would look again after 30 s.
#[test]
fn a_worker_that_waits_ends_when_its_locks_are_closed() {
    play(async || {
        let shop = Shop::open().await;
        let memory = MemoryDocuments::new();
        for locks in [shop.there.clone(), Documents::new().in_memory::<Order>(&memory)] {
            let queue = locks.queue(doc! { "state": "old" });
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    let queue = queue.clone();
                    tokio::spawn(async move { queue.next().await })
                })
                .collect();
            // Until then the first one waits. The worker ends also if it began to wait later.
            tokio::time::sleep(Duration::from_secs(2)).await;
            locks.close().await;
            for worker in workers {
                let ended = tokio::time::timeout(Duration::from_secs(15), worker).await;
                let error = ended.expect("it ends").unwrap().unwrap_err();
                assert_eq!(error.reason(), Some(Reason::Closed), "{error:?}");
                let key = error.key().expect("it names the line of the queue");
                assert!(key.as_str().contains("queue of jobs"), "{key}");
            }
        }
    });
}

#[test]
fn a_filter_that_only_a_find_can_answer_is_refused_by_every_question() {
    play(async || {
        let shop = Shop::open().await;
        for filter in [
            doc! { "$where": "this.total > 5" },
            doc! { "$and": [{ "state": "new" }, { "$or": [{ "$where": "true" }] }] },
            doc! { "place": { "$near": [1, 2] } },
            doc! { "places": { "$elemMatch": { "at": { "$nearSphere": [1, 2] } } } },
        ] {
            let queue = shop.here.queue(filter.clone()).order(doc! { "_id": 1 });
            for error in [
                queue.try_next().await.unwrap_err(),
                queue.next().await.unwrap_err(),
                queue.next_within(Duration::from_secs(60)).await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{filter}: {error:?}");
                assert!(error.to_string().contains("$where"), "{error}");
            }
        }
        let value = shop.here.queue(doc! { "state": { "$eq": { "$where": "new" } } });
        assert!(value.try_next().await.unwrap().is_none(), "a value is no operator");
    });
}

#[test]
fn who_waits_is_woken_by_whatever_makes_a_document_match() {
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        let all = shop.orders.clone_with_type::<Document>();
        let long = "x".repeat(2000);
        all.insert_one(
            doc! { "_id": 7, "locked_by": "x", "done": true, "tags": [1, 2], "long": long },
        )
        .await
        .unwrap();
        let none = doc! { "$exists": false };
        for (field, filter, update) in [
            ("_tenure", doc! { "done": none.clone() }, doc! { "$unset": { "done": "" } }),
            ("_tenure", doc! { "tags.1": none }, doc! { "$pop": { "tags": 1 } }),
            ("locked", doc! { "locked_by": "y" }, doc! { "$set": { "locked_by": "y" } }),
        ] {
            let locks = patient().field(field).unwrap().over(&all).await.unwrap();
            let queue = locks.queue(doc! { "$and": [{ "_id": 7 }, filter] });
            let (other, asked) = (queue.clone(), || count(&server, "aggregate"));
            let before = asked();
            let waits = tokio::spawn(async move { other.next().await });
            // It listens by one aggregation, and asks by another one how long it has to wait.
            until("it waits", async || asked() >= before + 2).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            all.update_one(doc! { "_id": 7 }, update).await.unwrap();
            // Without a notification it would look again after 30 s.
            let job = tokio::time::timeout(Duration::from_secs(20), waits).await;
            let job = job.expect("it is woken").unwrap().unwrap();
            job.retry_later(Duration::ZERO).await.unwrap();
            all.update_one(doc! { "_id": 7 }, doc! { "$unset": { "_tenure": "", "locked": "" } })
                .await
                .unwrap();
        }
    });
}

#[test]
fn no_question_of_a_queue_reads_more_than_what_its_filter_finds() {
    play(async || {
        let (_server, shop) = Shop::open_alone().await;
        let index = mongodb::IndexModel::builder().keys(doc! { "state": 1, "_id": 1 }).build();
        shop.orders.create_index(index).await.unwrap();
        let old = |id| Order { state: "old".to_owned(), ..order(id) };
        shop.orders.insert_many((100..600).map(old)).await.unwrap();
        let database = shop.orders.client().database("tenure");
        database.run_command(doc! { "profile": 2 }).await.unwrap();
        let queue = queue(&shop.here);
        let job = queue.try_next().await.unwrap().unwrap();
        assert!(queue.next_within(Duration::from_secs(2)).await.unwrap().is_none());
        job.retry_later(Duration::from_secs(3600)).await.unwrap();
        database.run_command(doc! { "profile": 0 }).await.unwrap();
        let orders = shop.orders.name();
        let profile = database.collection::<Document>("system.profile");
        let asked = doc! { "ns": format!("tenure.{orders}"), "$or": [
            { "command.findAndModify": orders },
            { "command.pipeline.0.$match": { "$exists": true } },
        ] };
        let due = doc! { "$and": [asked.clone(), { "command.aggregate": orders }] };
        assert!(profile.count_documents(due).await.unwrap() > 0, "it asks how long it has to wait");
        let scans = doc! { "$and": [asked, { "$or": [{ "planSummary": "COLLSCAN" }, { "docsExamined": { "$gt": 1 } }] }] };
        assert_eq!(profile.find_one(scans).await.unwrap(), None);
    });
}

#[test]
fn one_document_that_always_fails_keeps_eight_workers_from_nothing_else() {
    const ORDERS: i32 = 100;
    play(async || {
        let shop = Shop::open().await;
        shop.orders.insert_many((100..100 + ORDERS).map(order)).await.unwrap();
        let (left, failed) = (AtomicI32::new(ORDERS), AtomicI32::new(0));
        let worker = async |locks| {
            let queue = queue(locks);
            while left.load(Ordering::Relaxed) > 0 {
                let next = queue.next_within(Duration::from_millis(500)).await.unwrap();
                let Some(job) = next else { continue };
                if job.document().id == 42 {
                    failed.fetch_add(1, Ordering::Relaxed);
                    job.retry_later(Duration::from_millis(20)).await.unwrap();
                } else {
                    job.done(doc! { "$set": { "state": "done" } }).await.unwrap();
                    left.fetch_sub(1, Ordering::Relaxed);
                }
            }
        };
        let workers = (0..8).map(|nth| worker(if nth % 2 == 0 { &shop.here } else { &shop.there }));
        futures_util::future::join_all(workers).await;
        assert_eq!(left.into_inner(), 0, "each was done once");
        assert!(failed.into_inner() > 1, "it was tried again");
        assert_eq!(shop.seen(42).await.state, "new");
    });
}

/// Ten workers take each of many documents once, and half of them are killed: their clients are
/// dropped where they stand.
#[test]
fn ten_workers_do_each_of_ten_thousand_documents_exactly_once_also_when_workers_die() {
    const DOCUMENTS: i32 = 10_000;
    const DEATHS: usize = 5;
    play(async || {
        let shop = Shop::open().await;
        shop.orders.delete_many(doc! {}).await.unwrap();
        let index = mongodb::IndexModel::builder().keys(doc! { "state": 1, "_id": 1 }).build();
        shop.orders.create_index(index).await.unwrap();
        shop.orders.insert_many((0..DOCUMENTS).map(order)).await.unwrap();
        let done: Arc<Mutex<HashMap<i32, u32>>> = Arc::default();
        let url = format!("{}&timeout=20s", shop.url);
        let worker = async |dies: bool| {
            let (url, done) = (url.clone(), done.clone());
            let locks = patient().connect::<Order>(url).await.unwrap();
            let queue = queue(&locks).ttl(Duration::from_secs(5));
            for nth in 0_u32.. {
                let Some(job) = queue.next_within(Duration::from_secs(8)).await.unwrap() else {
                    break;
                };
                if dies && nth == 100 {
                    // As a process that is killed: nothing is given back, and nothing is renewed
                    // any more.
                    std::mem::forget(job);
                    let engine = locks.locks().clone();
                    engine.close().await;
                    std::mem::forget(engine);
                    return;
                }
                let id = job.document().id;
                match job.done(doc! { "$set": { "state": "done" } }).await {
                    Ok(()) => *done.lock().unwrap().entry(id).or_default() += 1,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}"),
                }
            }
        };
        let workers: Vec<_> = (0..10).map(|nth| worker(nth < DEATHS)).collect();
        futures_util::future::join_all(workers).await;
        let done = done.lock().unwrap().clone();
        assert_eq!(done.len(), usize::try_from(DOCUMENTS).unwrap());
        assert!(done.values().all(|times| *times == 1), "each was done once");
        let left = shop.orders.count_documents(doc! { "state": { "$ne": "done" } }).await.unwrap();
        assert_eq!(left, 0);
        let free: Option<Document> = shop
            .orders
            .clone_with_type()
            .find_one(doc! { "_tenure.held.0": { "$exists": true } })
            .await
            .unwrap();
        assert_eq!(free, None, "nothing is held");
    });
}
