//! Locks on documents beside the bare operations that they replace, with the same write concern:
//! the time, and the processor time of the server.

use std::error::Error;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use mongodb::bson::{Bson, DateTime, Document, bson, doc, oid::ObjectId};
use mongodb::options::ReturnDocument;
use mongodb::{Collection, IndexModel};
use tenure_mongodb_documents::{DocumentLocks, Documents, Path};
use tenure_servers::mongodb::Server;

use super::floor::collection;
use crate::contest::workers::workers;
use crate::figures::{Table, readable, times};
use crate::processor;

const SUITE: &str = "mongodb-documents";
/// Repetitions of each operation in a round, in turn with the operation beside it.
const TIMES: u32 = 50;
const ROUNDS: u32 = 6;
const WORKERS: u32 = 8;
const JOBS: i32 = 800;
const LINES: i32 = 1000;
/// Work of each of two clients of one document, and the pause of the peer between two attempts.
const WORK: Duration = Duration::from_millis(50);
const POLL: Duration = Duration::from_secs(1);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Adds the rows of a replica set of one server.
pub(crate) fn run(table: &mut Table) {
    let measured = workers().block_on(async {
        let bench = Bench::open().await?;
        bench.whole(table).await?;
        bench.part(table).await?;
        bench.queue(table).await?;
        bench.peer(table).await
    });
    if let Err(error) = measured {
        table.row(SUITE, format!("absent: {error}"), "–", "–");
    }
}

/// The update of the holder and of the bare operation.
fn update() -> Document {
    doc! { "$inc": { "total": 1_i64 } }
}

struct Bench {
    server: Server,
    documents: Collection<Document>,
    locks: DocumentLocks<Document>,
}

/// The time of operations, and the processor time of the server.
#[derive(Clone, Copy, Default)]
struct Cost {
    time: Duration,
    server: Duration,
}

impl Cost {
    fn each(self, of: u32) -> Self {
        Self { time: self.time / of, server: self.server / of }
    }
}

/// The texts of a row: the case, the operation beside it, and the goal.
struct Row<'a> {
    case: &'a str,
    beside: &'a str,
    wanted: &'a str,
}

impl Row<'_> {
    fn put(&self, table: &mut Table, cost: Cost, bare: Cost) {
        let Self { case, beside, wanted } = self;
        let ratio = times(cost.time, bare.time);
        let by = format!("{ratio:.2} × {beside}, {}", readable(bare.time));
        table.row(format!("{SUITE}: {case}"), readable(cost.time), by, *wanted);
        let ratio = times(cost.server, bare.server);
        let by = format!("{ratio:.2} × {beside}, {}", readable(bare.server));
        let case = format!("{SUITE}: {case}, processor time of the server");
        table.row(case, readable(cost.server), by, "–");
    }
}

impl Bench {
    async fn open() -> Outcome<Self> {
        let server = Server::start()?;
        let documents = collection(&server.url(), "orders").await;
        let line = |sku| Bson::from(doc! { "sku": sku, "quantity": 1, "name": "a thing" });
        let lines: Vec<Bson> = (0..LINES).map(line).collect();
        let short = doc! { "_id": 1, "state": "new", "total": 0_i64, "name": "x".repeat(500) };
        let long = doc! { "_id": 2, "state": "new", "total": 0_i64, "lines": lines };
        documents.insert_many([short, long]).await?;
        let url = format!("{}&database=bench&collection=orders&timeout=60s", server.url());
        let locks = Documents::new().connect(url).await?;
        Ok(Self { server, documents, locks })
    }

    async fn whole(&self, table: &mut Table) -> Outcome<()> {
        let bare = async || {
            self.documents.find_one(doc! { "_id": 1 }).await?;
            self.update_bare().await
        };
        let two = async || {
            self.update_bare().await?;
            self.update_bare().await
        };
        let held = async || {
            let guard = self.locks.document(1).lock().await?;
            guard.update(update()).await?;
            Ok(guard.release().await?)
        };
        let carried = async || {
            let guard = self.locks.document(1).lock().await?;
            Ok(guard.release_with(update()).await?)
        };
        let released = async || Ok(self.locks.document(1).lock().await?.release().await?);
        let wanted = "≤ 1.3 ×";
        let row = Row { case: "lock + read, update, release", beside: "find, update", wanted };
        self.beside(table, &row, held, bare).await?;
        let case = "lock + read, release with the update";
        self.beside(table, &Row { case, beside: "find, update", wanted }, carried, bare).await?;
        let (case, beside) = ("lock + read, release", "two findOneAndUpdate");
        self.beside(table, &Row { case, beside, wanted: "≤ 1.15 ×" }, released, two).await
    }

    async fn update_bare(&self) -> Outcome<()> {
        self.documents.find_one_and_update(doc! { "_id": 1 }, update()).await?;
        Ok(())
    }

    async fn part(&self, table: &mut Table) -> Outcome<()> {
        let path = || Path::field("lines").element("sku", LINES / 2);
        let part = async || {
            let guard = self.locks.part::<Document>(2, path()).lock().await?;
            Ok(guard.release_with(vec![doc! { "$set": { "quantity": 2 } }]).await?)
        };
        let whole = async || {
            let guard = self.locks.document(2).lock().await?;
            Ok(guard.release_with(vec![doc! { "$set": { "total": 2 } }]).await?)
        };
        let beside = "the whole of that document";
        let row = Row { case: "a part among 1,000 in an array", beside, wanted: "–" };
        self.beside(table, &row, part, whole).await
    }

    async fn queue(&self, table: &mut Table) -> Outcome<()> {
        let index = IndexModel::builder().keys(doc! { "job": 1, "_id": 1 }).build();
        self.documents.create_index(index).await?;
        let fill = async |from: i32| {
            let many = (0..JOBS).map(|nth| doc! { "_id": from + nth, "job": "new" });
            self.documents.insert_many(many).await.map(drop)
        };
        fill(10_000).await?;
        let bare =
            self.timed(async || try_join_all((0..WORKERS).map(|_| self.works())).await.map(drop));
        let bare = bare.await?;
        fill(20_000).await?;
        let queue = self.locks.queue(doc! { "job": "new" }).order(doc! { "_id": 1 });
        let claims = self.timed(async || {
            let workers = (0..WORKERS).map(|_| async {
                while let Some(job) = queue.try_next().await? {
                    job.done(doc! { "$set": { "job": "done" } }).await?;
                }
                Ok::<(), Box<dyn Error>>(())
            });
            try_join_all(workers).await.map(drop)
        });
        let claims = claims.await?;
        let jobs = JOBS.unsigned_abs();
        let beside = "two findOneAndUpdate, the same filter and sort";
        let row = Row { case: "a claim and done, 8 workers", beside, wanted: "≤ 1.25 ×" };
        row.put(table, claims.each(jobs), bare.each(jobs));
        Ok(())
    }

    /// A worker without a lock, which marks the next job as taken and then as done.
    async fn works(&self) -> Outcome<()> {
        loop {
            let (new, taken) = (doc! { "job": "new" }, doc! { "$set": { "job": "taken" } });
            let asked = self.documents.find_one_and_update(new, taken).sort(doc! { "_id": 1 });
            let Some(job) = asked.return_document(ReturnDocument::After).await? else {
                return Ok(());
            };
            let (which, done) =
                (doc! { "_id": job.get("_id") }, doc! { "$set": { "job": "done" } });
            self.documents.find_one_and_update(which, done).await?;
        }
    }

    /// Two clients of one document, which work one after the other: the time until both are done.
    async fn peer(&self, table: &mut Table) -> Outcome<()> {
        let tenure = self.timed(async || {
            let two = (0..2).map(|_| async {
                let guard = self.locks.document(1).lock().await?;
                tokio::time::sleep(WORK).await;
                Ok::<(), Box<dyn Error>>(guard.release().await?)
            });
            try_join_all(two).await.map(drop)
        });
        let tenure = tenure.await?;
        let peer = self.timed(async || try_join_all((0..2).map(|_| self.polls())).await.map(drop));
        let (beside, wanted) = ("the same by polls of a second", "< 1 ×");
        let case = "two after each other, 50 ms of work each";
        Row { case, beside, wanted }.put(table, tenure, peer.await?);
        Ok(())
    }

    /// A lock by client clocks: an id and a time of the client, polled every second.
    async fn polls(&self) -> Outcome<()> {
        let (id, stale) = (ObjectId::new(), Duration::from_secs(30));
        let stale_ms = i64::try_from(stale.as_millis())?;
        loop {
            let before = DateTime::from_millis(DateTime::now().timestamp_millis() - stale_ms);
            let free = bson!([{ "lock": null }, { "lock.at": { "$lte": before } }]);
            let filter = doc! { "_id": 1, "$or": free };
            let lock = doc! { "id": id, "at": DateTime::now(), "stale_ms": stale_ms };
            let taken = doc! { "$set": { "lock": lock } };
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

    /// Measures both operations in turn, so that other load meets both alike.
    async fn beside(
        &self,
        table: &mut Table,
        row: &Row<'_>,
        act: impl AsyncFn() -> Outcome<()>,
        bare: impl AsyncFn() -> Outcome<()>,
    ) -> Outcome<()> {
        let (mut ones, mut others) = (Cost::default(), Cost::default());
        for round in 0..=ROUNDS {
            let (one, other) = (self.repeated(&act).await?, self.repeated(&bare).await?);
            // The first round warms both up.
            if round > 0 {
                (ones.time, ones.server) = (ones.time + one.time, ones.server + one.server);
                (others.time, others.server) =
                    (others.time + other.time, others.server + other.server);
            }
        }
        row.put(table, ones.each(TIMES * ROUNDS), others.each(TIMES * ROUNDS));
        Ok(())
    }

    async fn repeated(&self, act: &impl AsyncFn() -> Outcome<()>) -> Outcome<Cost> {
        let all = self.timed(async || {
            for _ in 0..TIMES {
                act().await?;
            }
            Ok(())
        });
        all.await
    }

    async fn timed(&self, act: impl AsyncFnOnce() -> Outcome<()>) -> Outcome<Cost> {
        let pid = self.server.pid()?;
        let (before, began) = (processor::of(pid), Instant::now());
        act().await?;
        let time = began.elapsed();
        Ok(Cost { time, server: processor::of(pid).saturating_sub(before) })
    }
}
