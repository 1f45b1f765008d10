//! Listeners: queues and waiters of one collection share one change stream, and leave the client's
//! other connections to commands.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection};
use tenure_mongodb_documents::{ClaimedDocument, DocumentLocks, Documents};
use tenure_servers::mongodb::{Server, Setup, doc as server_doc};
use tokio::task::JoinHandle;

use super::shop::{Line, Order, Part, Shop, line, long_order, order, part, patient};
use super::stage::{count, play, soon, streams, until};

/// Several renewals in a row are no accident.
const RENEWALS: usize = 3;

/// Returns the orders of a shop over a client of the program's own.
async fn borrowed(shop: &Shop, server: &Server, options: &str) -> Collection<Document> {
    let options = ClientOptions::parse(format!("{}{options}", server.url())).await.unwrap();
    let client = Client::with_options(options).unwrap();
    client.database("tenure").collection(shop.orders.name())
}

/// Asserts that the lock of order 42 is renewed several times.
async fn is_renewed(shop: &Shop) {
    let ends = async || {
        let order = shop.raw(42).await.unwrap();
        let held = order.get_document("_tenure").unwrap().get_array("held").unwrap();
        held[0].as_document().unwrap().get_i64("ends").unwrap()
    };
    for _ in 0..RENEWALS {
        let before = ends().await;
        until("it is renewed", async || ends().await > before).await;
    }
}

type Waiting = JoinHandle<tenure_core::Result<ClaimedDocument<Document>>>;

/// Starts a waiting worker in each of `queues` queues, whose filters name different fields.
fn wait_in(locks: &DocumentLocks<Document>, queues: usize) -> Vec<Waiting> {
    let wait = |nth| {
        let mut filter = Document::new();
        filter.insert(format!("f{nth}"), "new");
        let queue = locks.queue(filter);
        tokio::spawn(async move { queue.next().await })
    };
    (0..queues).map(wait).collect()
}

#[test]
fn waiting_queues_over_a_borrowed_client_share_one_stream_and_take_nothing_from_locks() {
    play(async || {
        for (queues, pool) in [(9, ""), (30, ""), (3, "&maxPoolSize=1")] {
            let (server, shop) = Shop::open_alone().await;
            let orders = borrowed(&shop, &server, pool).await;
            let locks = patient().over(&orders).await.unwrap();
            let lock = locks.document(42).ttl(Duration::from_secs(9));
            let guard = lock.renew_every(Duration::from_millis(500)).lock().await.unwrap();
            let workers = wait_in(&locks, queues);
            until("one stream hears for all queues", async || {
                let all = streams(&server);
                let names = |nth: usize| all.iter().any(|one| one.contains(&format!("f{nth}(")));
                all.len() == 1 && (0..queues).all(names)
            })
            .await;
            is_renewed(&shop).await;
            let found = orders.find_one(doc! { "_id": 42 });
            soon("the program's own read is answered", async { found.await }).await.unwrap();
            for nth in 0..queues {
                let mut order = doc! { "_id": 100 + i64::try_from(nth).unwrap() };
                order.insert(format!("f{nth}"), "new");
                orders.insert_one(order).await.unwrap();
            }
            for worker in workers {
                let job = soon("a worker is woken", worker).await.unwrap().unwrap();
                job.delete().await.unwrap();
            }
            guard.release().await.unwrap();
            until("no stream is open", async || streams(&server).is_empty()).await;
        }
    });
}

#[test]
fn collections_that_were_opened_over_one_client_keep_no_stream_once_they_are_idle() {
    const COLLECTIONS: usize = 12;
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        let client = borrowed(&shop, &server, "").await.client().clone();
        let mut opened = Vec::new();
        for nth in 0..COLLECTIONS {
            let orders = client.database("shop").collection::<Document>(&format!("c{nth}"));
            orders.insert_one(doc! { "_id": 1 }).await.unwrap();
            let locks = patient().over(&orders).await.unwrap();
            let front = locks.document(1).lock().await.unwrap();
            let there = patient().over(&orders).await.unwrap();
            let next = tokio::spawn(async move { there.document(1).lock().await });
            until("it waits", async || locks.document(1).line().await.unwrap().len() == 2).await;
            front.release().await.unwrap();
            soon("it is handed over", next).await.unwrap().unwrap().release().await.unwrap();
            opened.push(locks);
        }
        until("no stream is open", async || streams(&server).is_empty()).await;
    });
}

/// The driver does not show which clients are the same, so each collection has a stream of its own.
#[test]
fn more_streams_than_connections_of_a_borrowed_client_keep_no_renewal_out() {
    const COLLECTIONS: usize = 12;
    play(async || {
        let (server, shop) = Shop::open_alone().await;
        let orders = borrowed(&shop, &server, "").await;
        let locks = patient().over(&orders).await.unwrap();
        let lock = locks.document(42).ttl(Duration::from_secs(9));
        let guard = lock.renew_every(Duration::from_millis(500)).lock().await.unwrap();
        let mut opened = Vec::new();
        for nth in 0..COLLECTIONS {
            let all = orders.client().database("shop").collection::<Document>(&format!("c{nth}"));
            let locks = patient().over(&all).await.unwrap();
            let worker = wait_in(&locks, 1).remove(0);
            opened.push((all, locks, worker));
        }
        until("all listen", async || streams(&server).len() == COLLECTIONS).await;
        is_renewed(&shop).await;
        for (all, _locks, worker) in opened {
            all.insert_one(doc! { "_id": 1, "f0": "new" }).await.unwrap();
            soon("a worker is woken", worker).await.unwrap().unwrap().delete().await.unwrap();
        }
        guard.release().await.unwrap();
    });
}

/// A glance finds a ticket in its place: nothing is missed, so no ticket is renewed before its
/// time.
#[test]
fn holders_of_parts_that_listen_write_nothing() {
    const LONG: Duration = Duration::from_secs(24 * 3600);
    play(async || {
        for documents in [Documents::new(), Documents::new().hierarchical()] {
            let (server, shop) = Shop::open_alone().await;
            shop.orders.insert_one(long_order(43, 3)).await.unwrap();
            let orders = documents.connect::<Order>(&shop.url).await.unwrap();
            let lines =
                orders.parts::<Line>(43, [line(1), line(2)]).ttl(LONG).lock().await.unwrap();
            let inner = orders.part::<Part>(43, part(0, 7)).ttl(LONG).lock().await.unwrap();
            let mut listen: Vec<_> = lines.iter().map(|line| tokio::spawn(line.lost())).collect();
            listen.push(tokio::spawn(inner.lost()));
            let reads = || count(&server, "find");
            let before = reads();
            until("it looks now and then", async || reads() >= before + 4).await;
            let (before, writes) = (reads(), count(&server, "findAndModify"));
            until("it looks now and then", async || reads() >= before + 8).await;
            assert_eq!(count(&server, "findAndModify"), writes, "no ticket is renewed");
            assert!(listen.iter().all(|it| !it.is_finished()));
            // Each place is read: the ticket in the last one is notified of its loss.
            shop.orders
                .update_one(
                    doc! { "_id": 43 },
                    doc! { "$unset": { "lines.0.parts.0._tenure": "" } },
                )
                .await
                .unwrap();
            soon("it hears of its loss", listen.pop().unwrap()).await.unwrap();
            assert!(listen.iter().all(|it| !it.is_finished()), "the others are held");
        }
    });
}

#[test]
fn a_worker_hears_what_comes_in_whatever_read_concern_its_client_has() {
    play(async || {
        for level in ["local", "available", "linearizable"] {
            let (server, shop) = Shop::open_alone().await;
            let orders = borrowed(&shop, &server, &format!("&readConcernLevel={level}")).await;
            let by_url = format!("{}&readConcernLevel={level}", shop.url);
            let by_url: DocumentLocks<Document> = patient().connect(by_url).await.unwrap();
            for locks in [patient().over(&orders).await.unwrap(), by_url] {
                let worker = wait_in(&locks, 1).remove(0);
                until("it listens", async || streams(&server).len() == 1).await;
                orders.insert_one(doc! { "_id": 100, "f0": "new" }).await.unwrap();
                soon("it is woken", worker).await.unwrap().unwrap().delete().await.unwrap();
                until("no stream is open", async || streams(&server).is_empty()).await;
            }
        }
    });
}

/// The right to open change streams is revoked after the collection was opened: a worker polls, and
/// does not wait for a stream.
#[test]
fn a_worker_polls_where_the_stream_is_refused() {
    play(async || {
        let on = |database: &str, actions: &[&str]| {
            server_doc! { "resource": { "db": database, "collection": "" }, "actions": actions.to_vec() }
        };
        let may = ["find", "insert", "update", "listCollections", "changeStream", "revokeRole"];
        let status = server_doc! { "resource": { "cluster": true }, "actions": ["serverStatus"] };
        let role = server_doc! {
            "createRole": "worker", "privileges": [on("tenure", &may), status], "roles": [],
        };
        let server = Setup::new().user_with_role("worker", "s3cret", role).start().unwrap();
        let client = Client::with_uri_str(server.url()).await.unwrap();
        let orders = client.database("tenure").collection::<Order>("orders");
        let locks = patient().over(&orders).await.unwrap();
        assert!(locks.locks().guarantees().push);
        let revoke = doc! {
            "revokePrivilegesFromRole": "worker",
            "privileges": [{ "resource": { "db": "tenure", "collection": "" }, "actions": ["changeStream"] }],
        };
        client.database("admin").run_command(revoke).await.unwrap();
        let queue = locks.queue(doc! { "state": "new" });
        let worker = tokio::spawn(async move { queue.next().await });
        let asked = async || {
            let status = client.database("admin").run_command(doc! { "serverStatus": 1 }).await;
            let status = status.unwrap();
            let commands =
                status.get_document("metrics").unwrap().get_document("commands").unwrap();
            commands.get_document("aggregate").unwrap().get_i64("total").unwrap()
        };
        let before = asked().await;
        until("it polls", async || asked().await >= before + 5).await;
        orders.insert_one(order(42)).await.unwrap();
        // By itself it would look again after 30 s.
        let job = tokio::time::timeout(Duration::from_secs(25), worker).await;
        let job = job.expect("it polls").unwrap().unwrap();
        job.done(doc! { "$set": { "state": "sent" } }).await.unwrap();
    });
}
