//! Measures what each verb costs the server in lines of 1, 100, 1,000 and 10,000 tickets: processor
//! time, and bytes.
//!
//! Run it as `cargo run --release --package tenure-mongodb --example mongodb_cost`. It starts a
//! MongoDB of its own.

use std::error::Error;
use std::time::Duration;

use futures_util::future::try_join_all;
use tenure_core::{Engine as _, Key, LeaveMode, Share, Ticket, WaitMode};
use tenure_mongodb::MongoStore;
use tenure_servers::mongodb::{Document, Server, doc};

const LINES: [usize; 4] = [1, 100, 1_000, 10_000];
/// Runs of each verb.
const TIMES: usize = 20;
/// Linux counts the time of processes in hundredths of a second.
const TICK_MS: f64 = 10.0;
const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start()?;
    let store = MongoStore::open(&format!("{}&timeout=60s", server.url())).await?;
    println!(
        "| in line | bytes | a holder's renewal | the last one's renewal | join + leave at the back | a hand-over | written for it |"
    );
    println!("|---|---|---|---|---|---|---|");
    for count in LINES {
        let key = Key::new(format!("line of {count}"))?;
        let ticket = || Ticket { ttl: DAY, ..Ticket::new(key.clone(), Share::WHOLE) };
        let tickets: Vec<Ticket> = (0..count + TIMES).map(|_| ticket()).collect();
        for some in tickets.chunks(64) {
            try_join_all(some.iter().map(|it| store.join(it, WaitMode::Wait))).await?;
        }
        let bytes = bytes(&server, &key)?;
        let (first, last) = (&tickets[0], &tickets[tickets.len() - 1]);
        let renewal = cost(&server, async || store.renew(first).await.map(drop)).await?;
        let late = cost(&server, async || store.renew(last).await.map(drop)).await?;
        let back = cost(&server, async || {
            let one = ticket();
            store.join(&one, WaitMode::Wait).await?;
            store.leave(&one, LeaveMode::Now).await.map(drop)
        })
        .await?;
        let mut front = tickets.iter();
        let hand_over = cost(&server, async || {
            let holder = front.next().expect("there are enough");
            store.leave(holder, LeaveMode::Now).await.map(drop)
        })
        .await?;
        let written = written(&server)?;
        println!(
            "| {count} | {bytes} | {renewal:.1} ms | {late:.1} ms | {back:.1} ms | {hand_over:.1} ms | {written} bytes |"
        );
    }
    Ok(())
}

/// Returns the server's processor time for one of many calls, in milliseconds.
async fn cost(
    server: &Server,
    mut verb: impl AsyncFnMut() -> tenure_core::Result<()>,
) -> Result<f64, Box<dyn Error>> {
    let before = ticks(server)?;
    for _ in 0..TIMES {
        verb().await?;
    }
    Ok(f64::from(ticks(server)? - before) * TICK_MS / f64::from(u32::try_from(TIMES)?))
}

fn ticks(server: &Server) -> Result<u32, Box<dyn Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid()?))?;
    let (_, fields) = stat.rsplit_once(") ").ok_or("it has a name")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    Ok(fields[11].parse::<u32>()? + fields[12].parse::<u32>()?)
}

/// Returns the length of a line's record in bytes.
fn bytes(server: &Server, key: &Key) -> Result<i64, Box<dyn Error>> {
    let size = doc! { "$project": { "_id": 0, "size": { "$bsonSize": "$$ROOT" } } };
    let only = doc! { "$match": { "key": key.as_str() } };
    let find = doc! { "aggregate": "locks", "pipeline": [only, size], "cursor": {} };
    one_number(&server.command("tenure", find)?, "size")
}

/// Returns the length of the last entry of the oplog in bytes.
fn written(server: &Server) -> Result<i64, Box<dyn Error>> {
    let size = doc! { "$project": { "size": { "$bsonSize": "$$ROOT" } } };
    let pipeline = vec![doc! { "$match": { "ns": "tenure.locks" } }, doc! { "$limit": 1 }, size];
    let last = doc! { "aggregate": "oplog.rs", "pipeline": pipeline, "cursor": {}, "hint": { "$natural": -1 } };
    one_number(&server.command("local", last)?, "size")
}

fn one_number(answer: &Document, field: &str) -> Result<i64, Box<dyn Error>> {
    let batch = answer.get_document("cursor")?.get_array("firstBatch")?;
    let one = batch.first().and_then(|one| one.as_document()).ok_or("nothing is found")?;
    Ok(one.get_i32(field).map(i64::from).or_else(|_| one.get_i64(field))?)
}
