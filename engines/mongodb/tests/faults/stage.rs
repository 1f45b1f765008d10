//! The stage of these stories: a runtime, patience with a limit, and what a test asks of a server.

use std::time::{Duration, Instant};

use tenure_core::{Engine as _, Key, Locks, Patience, Place, Share, Ticket};
use tenure_mongodb::MongoStore;
use tenure_servers::mongodb::{Document, MONGOD, Server, doc};
use tenure_servers::{Tool, have};

/// How long anything may take that must happen: the machine may be busy.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// A life so long that no heartbeat falls into its story: what happens was not found out by one.
pub(super) const LONG: Duration = Duration::from_secs(24 * 3600);
const POLL_PAUSE: Duration = Duration::from_millis(10);

/// Plays a story that needs a MongoDB, if there is one here.
pub(super) fn play(story: impl AsyncFnOnce()) {
    play_with(&[], story);
}

/// The same for a story that needs these as well.
pub(super) fn play_with(tools: &[Tool], story: impl AsyncFnOnce()) {
    if !have(&[MONGOD]) || !have(tools) {
        return;
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let ended = tokio::time::timeout(PATIENCE * 3, story()).await;
        ended.expect("the story ends");
    });
}

/// The locks at this URL.
pub(super) async fn connect(url: impl AsRef<str>) -> Locks {
    tenure_mongodb::connect(url).await.expect("the server can be reached")
}

/// The engine itself, on the runtime of the story.
pub(super) async fn store(url: &str) -> MongoStore {
    MongoStore::open(url).await.expect("the server can be reached")
}

/// A ticket for the whole of this key.
pub(super) fn ticket(key: &str, ttl: Duration) -> Ticket {
    Ticket { ttl, ..Ticket::new(Key::new(key).unwrap(), Share::WHOLE) }
}

/// Puts a ticket into its line.
pub(super) async fn join(store: &MongoStore, ticket: &Ticket) -> Place {
    store.join(ticket, Patience::Wait).await.expect("it is answered").expect("it waits")
}

/// Waits for what must happen.
pub(super) async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(PATIENCE, happens).await;
    happened.unwrap_or_else(|_| panic!("within {PATIENCE:?} this did not happen: {what}"))
}

/// Looks again and again until it is so.
pub(super) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "within {PATIENCE:?} this did not happen: {what}");
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

/// The id of a line's record.
pub(super) fn record(key: &str) -> String {
    Key::new(key).unwrap().canonical("tenure")
}

/// Runs a command in the database of the locks.
pub(super) fn ask(server: &Server, command: Document) -> Document {
    server.command("tenure", command).unwrap()
}

/// The record of a line, if there is one.
pub(super) fn look_at(server: &Server, key: &str) -> Option<Document> {
    let found = ask(server, doc! { "find": "locks", "filter": { "_id": record(key) } });
    let batch = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.first().map(|record| record.as_document().unwrap().clone())
}

/// How many commands of this name the server was asked.
pub(super) fn count(server: &Server, command: &str) -> i64 {
    let status = server.command("admin", doc! { "serverStatus": 1 }).unwrap();
    let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
    let command = commands.get_document(command).unwrap();
    command.get_i64("total").or_else(|_| command.get_i32("total").map(i64::from)).unwrap()
}
