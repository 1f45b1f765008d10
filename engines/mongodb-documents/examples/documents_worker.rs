//! A worker locks, processes, marks and unlocks one event at a time. Start several as `cargo run
//! --package tenure-mongodb-documents --example documents_worker -- URL NAME`, with a URL such as
//! `mongodb://127.0.0.1/shop?replicaSet=rs0&collection=events`.

use std::time::Duration;

use mongodb::bson::doc;
use serde::Deserialize;
use tenure_core::{Error, ErrorKind, Result};
use tenure_mongodb_documents::{DocumentGuard, DocumentLocks, DocumentQueue, Documents};

/// Time without an event after which a worker ends.
const IDLE: Duration = Duration::from_secs(10);
/// Time after which another worker takes over the event of a dead one.
const TTL: Duration = Duration::from_secs(3);

#[derive(Deserialize)]
struct Event {
    payload: String,
}

/// Does the work, which may take longer than the ttl: the lock is renewed meanwhile.
async fn process(event: &DocumentGuard<Event>) -> std::result::Result<(), String> {
    tokio::time::sleep(Duration::from_millis(5)).await;
    let is_empty = event.document().payload.is_empty();
    if is_empty { Err(format!("the event {} is empty", event.id_of_document())) } else { Ok(()) }
}

/// Processes one event while it is locked. Returns `false` if there was none.
async fn one(queue: &DocumentQueue<Event>, name: &str) -> Result<bool> {
    let Some(event) = queue.next_within(IDLE).await? else { return Ok(false) };
    if let Err(why) = event.run(process(&event)).await? {
        eprintln!("{name}: {why}");
        event.retry_later(Duration::from_secs(60)).await?;
    } else {
        event.done(doc! { "$set": { "state": "done" }, "$push": { "by": name } }).await?;
    }
    Ok(true)
}

pub(crate) async fn work(url: &str, name: &str) -> Result<()> {
    let events: DocumentLocks<Event> = Documents::new().connect(url).await?;
    let queue = events.queue(doc! { "state": "new" }).order(doc! { "_id": 1 }).ttl(TTL).note(name);
    while match one(&queue, name).await {
        // Another worker took the event over, or the server did not answer: claim again.
        Err(e) if matches!(e.kind(), ErrorKind::Lost | ErrorKind::Unavailable) => true,
        done => done?,
    } {}
    events.close().await;
    Ok(())
}

#[allow(dead_code, reason = "a test plays the story without it")]
#[tokio::main]
async fn main() -> Result<()> {
    match &std::env::args().skip(1).collect::<Vec<_>>()[..] {
        [url, name] => work(url, name).await,
        _ => Err(Error::invalid("say the URL of the collection, and the name of the worker")),
    }
}
