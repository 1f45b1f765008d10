//! What locks on documents cost beside the bare operations of the same driver, with the same write concern: time, and the
//! server's processor time.
//!
//! Run it as `cargo run --release --package tenure-mongodb --example documents_cost`. It starts a MongoDB of its own.

use std::error::Error;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use mongodb::bson::{Bson, DateTime, Document, bson, doc, oid::ObjectId};
use mongodb::options::{ReturnDocument, WriteConcern};
use mongodb::{Client, Collection, IndexModel};
use tenure_mongodb::documents::{DocumentLocks, Documents, Path};
use tenure_servers::mongodb::Server;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How often each act is carried out, in turns with those that it is compared with.
const TIMES: u32 = 300;
const ROUNDS: u32 = 6;
const WORKERS: i32 = 8;
const JOBS: i32 = 1600;
/// Linux counts the time of processes in hundredths of a second.
const TICK_MS: f64 = 10.0;
const LINES: i32 = 1000;
/// How long the peer's holder works, and how long the peer rests between two tries.
const WORK: Duration = Duration::from_millis(50);
const POLL: Duration = Duration::from_secs(1);

struct Bench {
    server: Server,
    documents: Collection<Document>,
    locks: DocumentLocks<Document>,
}

/// What an act came to: its time, and the server's.
#[derive(Clone, Copy, Default)]
struct Cost {
    ms: f64,
    processor_ms: f64,
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let bench = Bench::open().await?;
    println!(
        "| what | beside | time | ratio | processor time | ratio |\n|---|---|---|---|---|---|"
    );
    bench.whole().await?;
    bench.part().await?;
    bench.queue().await?;
    bench.peer().await?;
    Ok(())
}

impl Bench {
    async fn open() -> Outcome<Self> {
        let server = Server::start()?;
        let client = Client::with_uri_str(server.url()).await?;
        let mut concern = WriteConcern::majority();
        concern.journal = Some(true);
        let options = mongodb::options::CollectionOptions::builder().write_concern(concern).build();
        let documents = client.database("shop").collection_with_options("orders", options);
        let line = |sku| Bson::from(doc! { "sku": sku, "quantity": 1, "name": "a thing" });
        let lines: Vec<Bson> = (0..LINES).map(line).collect();
        documents
            .insert_one(doc! { "_id": 1, "state": "new", "total": 0_i64, "name": "x".repeat(500) })
            .await?;
        documents
            .insert_one(doc! { "_id": 2, "state": "new", "total": 0_i64, "lines": lines })
            .await?;
        let url = format!("{}&database=shop&collection=orders&timeout=60s", server.url());
        let locks = Documents::new().connect(url).await?;
        Ok(Self { server, documents, locks })
    }

    async fn bare_update(&self, id: i32) -> Outcome<()> {
        let update = doc! { "$inc": { "total": 1_i64 } };
        self.documents.find_one_and_update(doc! { "_id": id }, update).await?;
        Ok(())
    }

    async fn whole(&self) -> Outcome<()> {
        let bare = async || {
            self.documents.find_one(doc! { "_id": 1 }).await?;
            self.documents
                .update_one(doc! { "_id": 1 }, doc! { "$inc": { "total": 1_i64 } })
                .await?;
            Ok(())
        };
        let held = async || {
            let guard = self.locks.document(1).lock().await?;
            guard.update(doc! { "$inc": { "total": 1_i64 } }).await?;
            Ok(guard.release().await?)
        };
        let carried = async || {
            let guard = self.locks.document(1).lock().await?;
            Ok(guard.release_with(doc! { "$inc": { "total": 1_i64 } }).await?)
        };
        let two = async || {
            self.bare_update(1).await?;
            self.bare_update(1).await
        };
        let lock_and_release = async || Ok(self.locks.document(1).lock().await?.release().await?);
        let (one, other) = self.beside(bare, held).await?;
        row("lock + read, update, release", "find, update", other, one);
        let (one, other) = self.beside(bare, carried).await?;
        row("lock + read, release with the update", "find, update", other, one);
        let (one, other) = self.beside(two, lock_and_release).await?;
        row("lock + read, release", "two findOneAndUpdate", other, one);
        Ok(())
    }

    async fn part(&self) -> Outcome<()> {
        let path = || Path::field("lines").element("sku", LINES / 2);
        let part = async || {
            let guard = self.locks.part::<Document>(2, path()).lock().await?;
            Ok(guard.release_with(vec![doc! { "$set": { "quantity": 2 } }]).await?)
        };
        let whole = async || {
            let guard = self.locks.document(2).lock().await?;
            Ok(guard.release_with(vec![doc! { "$set": { "total": 2 } }]).await?)
        };
        let (one, other) = self.beside(whole, part).await?;
        row("a part among 1,000 in an array", "the whole of that document", other, one);
        Ok(())
    }

    async fn queue(&self) -> Outcome<()> {
        let jobs: Collection<Document> =
            self.documents.client().database("shop").collection("orders");
        jobs.create_index(IndexModel::builder().keys(doc! { "job": 1, "_id": 1 }).build()).await?;
        let fill = async |from: i32| {
            let many = (0..JOBS).map(|nth| doc! { "_id": from + nth, "job": "new" });
            jobs.insert_many(many).await.map(drop)
        };
        let queue = self.locks.queue(doc! { "job": "new" }).order(doc! { "_id": 1 });
        fill(10_000).await?;
        let bare = self
            .timed(async || {
                let workers = (0..WORKERS).map(|_| async {
                    loop {
                        let (filter, taken) =
                            (doc! { "job": "new" }, doc! { "$set": { "job": "taken" } });
                        let asked = self
                            .documents
                            .find_one_and_update(filter, taken)
                            .sort(doc! { "_id": 1 });
                        let Some(job) = asked.return_document(ReturnDocument::After).await? else {
                            return Ok::<(), Box<dyn Error>>(());
                        };
                        let (which, done) =
                            (doc! { "_id": job.get("_id") }, doc! { "$set": { "job": "done" } });
                        self.documents.find_one_and_update(which, done).await?;
                    }
                });
                try_join_all(workers).await.map(drop)
            })
            .await?;
        fill(20_000).await?;
        let claims = self
            .timed(async || {
                let workers = (0..WORKERS).map(|_| async {
                    while let Some(job) = queue.try_next().await? {
                        job.done(doc! { "$set": { "job": "done" } }).await?;
                    }
                    Ok::<(), Box<dyn Error>>(())
                });
                try_join_all(workers).await.map(drop)
            })
            .await?;
        let each = |cost: Cost| Cost {
            ms: cost.ms / f64::from(JOBS),
            processor_ms: cost.processor_ms / f64::from(JOBS),
        };
        row(
            "a claim and done, 8 workers",
            "two findOneAndUpdate, the same filter and sort",
            each(claims),
            each(bare),
        );
        Ok(())
    }

    /// Two want one document, and each works for a while: how long until both are done.
    async fn peer(&self) -> Outcome<()> {
        let tenure = self
            .timed(async || {
                let two = (0..2).map(|_| async {
                    let guard = self.locks.document(1).lock().await?;
                    tokio::time::sleep(WORK).await;
                    Ok::<(), Box<dyn Error>>(guard.release().await?)
                });
                try_join_all(two).await.map(drop)
            })
            .await?;
        let peer =
            self.timed(async || try_join_all((0..2).map(|_| self.polls())).await.map(drop)).await?;
        row(
            "two after each other, 50 ms of work each",
            "the same by polls of a second",
            tenure,
            peer,
        );
        Ok(())
    }

    /// As a lock by client clocks does it: a lock id and a time of the client's, tried again every second.
    async fn polls(&self) -> Outcome<()> {
        let (id, stale) = (ObjectId::new(), Duration::from_secs(30));
        loop {
            let before = DateTime::from_millis(DateTime::now().timestamp_millis() - 30_000);
            let free = bson!([{ "lock": null }, { "lock.at": { "$lte": before } }]);
            let filter = doc! { "_id": 1, "$or": free };
            let taken = doc! { "$set": { "lock": { "id": id, "at": DateTime::now(), "stale_ms": i64::try_from(stale.as_millis())? } } };
            if self.documents.find_one_and_update(filter, taken).await?.is_some() {
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        tokio::time::sleep(WORK).await;
        let released = doc! { "$unset": { "lock": "" } };
        self.documents.update_one(doc! { "_id": 1, "lock.id": id }, released).await?;
        Ok(())
    }

    /// Both acts in turns, so that what else the machine does is the same for both.
    async fn beside(
        &self,
        one: impl AsyncFn() -> Outcome<()>,
        other: impl AsyncFn() -> Outcome<()>,
    ) -> Outcome<(Cost, Cost)> {
        let (mut ones, mut others) = (Cost::default(), Cost::default());
        for round in 0..=ROUNDS {
            let first = self.repeated(&one).await?;
            let second = self.repeated(&other).await?;
            // The first round warms both up.
            if round > 0 {
                ones.add(first);
                others.add(second);
            }
        }
        Ok((ones, others))
    }

    async fn repeated(&self, act: &impl AsyncFn() -> Outcome<()>) -> Outcome<Cost> {
        let all = self
            .timed(async || {
                for _ in 0..TIMES / ROUNDS {
                    act().await?;
                }
                Ok(())
            })
            .await?;
        let times = f64::from(TIMES / ROUNDS * ROUNDS);
        Ok(Cost { ms: all.ms / times, processor_ms: all.processor_ms / times })
    }

    async fn timed(&self, act: impl AsyncFnOnce() -> Outcome<()>) -> Outcome<Cost> {
        let (before, began) = (self.ticks()?, Instant::now());
        act().await?;
        let processor_ms = f64::from(self.ticks()? - before) * TICK_MS;
        Ok(Cost { ms: began.elapsed().as_secs_f64() * 1000.0, processor_ms })
    }

    fn ticks(&self) -> Outcome<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.server.pid()?))?;
        let (_, fields) = stat.rsplit_once(") ").ok_or("it has a name")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        Ok(fields[11].parse::<u32>()? + fields[12].parse::<u32>()?)
    }
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.ms += other.ms;
        self.processor_ms += other.processor_ms;
    }
}

fn row(what: &str, beside: &str, cost: Cost, bare: Cost) {
    println!(
        "| {what} | {beside} | {:.2} ms beside {:.2} | {:.2} | {:.2} ms beside {:.2} | {:.2} |",
        cost.ms,
        bare.ms,
        cost.ms / bare.ms,
        cost.processor_ms,
        bare.processor_ms,
        cost.processor_ms / bare.processor_ms,
    );
}
